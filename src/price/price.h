/* What an attempt costs. The price book is data (data/prices.json): facts with source and date. Pure. */
#ifndef RM_PRICE_PRICE_H
#define RM_PRICE_PRICE_H

#include "base/arena.h"
#include "base/err.h"
#include "model/money.h"
#include "model/usage.h"

struct price_book;

/* Parses the book's JSON text. why: for people. The book lives in its own memory. */
enum err price_book_parse(struct bytes text, struct price_book **out, const char **why) RM_MUST_USE;
void price_book_free(struct price_book *b);
/* The book that is compiled in from data/prices.json. Never fails (asserted). */
struct price_book *price_book_builtin(void);
/* "provider/model", then "vendor/model", then "model"; on day `wall_ms` (validity spans). NULL = unknown. A bare name
 * of an entry that names its vendor (the maker) does not match another known vendor: a reseller's price is his own. */
const struct price *price_find(const struct price_book *b, const char *provider, const char *vendor, const char *model,
                               int64_t wall_ms);
size_t price_book_n(const struct price_book *b);

/* Nano-dollars, rounded half-up once; NUSD_UNKNOWN when the price or a needed rate is unknown. Negative counts count 0.
 */
int64_t price_cost(const struct price *p, const struct usage *u);

#endif
