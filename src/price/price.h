/* What an attempt costs. The price book is data (data/prices.json, and files of that form that `ringmain price import`
 * writes): facts with source and date. Pure. */
#ifndef RM_PRICE_PRICE_H
#define RM_PRICE_PRICE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/money.h"
#include "model/usage.h"
#include "price/fare.h"

struct price_book;

/* Parses the book's JSON text (docs/prices.md tells its form). On failure *out is NULL and `why` gets a line for
 * people, with the line of the file where that is known. The book lives in its own memory. */
enum err price_book_parse(struct bytes text, struct price_book **out, struct buf *why) RM_MUST_USE;
void price_book_free(struct price_book *b);
/* The book that is compiled in from data/prices.json. Never fails (asserted). */
struct price_book *price_book_builtin(void);
/* "provider/model", then "vendor/model", then "model"; on day `wall_ms` (validity spans). Then the same without a
 * region before the model ("us.", "eu." …), then without a date behind it ("-20250929"). NULL = unknown. A bare name of
 * an entry that names its vendor (the maker) does not match another known vendor: a reseller's price is his own. Lives
 * as long as the book. */
const struct price *price_find(const struct price_book *b, const char *provider, const char *vendor, const char *model,
                               int64_t wall_ms);
/* The same for a class of service that has rates of its own ("flex", "priority", "batches" …); where it has none, the
 * standard ones. "" = the standard ones. */
const struct price *price_find_service(const struct price_book *b, const char *provider, const char *vendor,
                                       const char *model, const char *service, int64_t wall_ms);
/* Adds every span and every class of a target, in the order in which price_find_service would take them, as copies in
 * the arena. */
void price_book_fare(const struct price_book *b, const char *provider, const char *vendor, const char *model,
                     unsigned layer, struct arena *a, struct fare *out);
/* A model's name without the date behind it: "-20250929", "-2025-09-29", "@20250929". */
struct bytes price_dateless(struct bytes model);
/* Entries, services counted as entries. */
size_t price_book_n(const struct price_book *b);
const char *price_book_version(const struct price_book *b);

/* USD a request, decimal text of at most twelve decimals -> pico-dollars. */
bool price_request_parse(struct bytes text, int64_t *pusd);
/* "2026-08-31" -> the moment at which that day begins, UTC; with `after` the one at which it is over. */
bool price_day_parse(struct bytes day, bool after, int64_t *wall_ms);

/* A copy, whole, in the arena. */
const struct price *price_keep(const struct price *p, struct arena *a);

/* Nano-dollars, rounded half-up once; NUSD_UNKNOWN when the price or a needed rate is unknown. Negative counts count 0.
 * The price of a request is added to whatever its tokens cost: do not ask for an attempt that was not billed. */
int64_t price_cost(const struct price *p, const struct usage *u);
/* The rates of a request with so long a prompt, every fallback applied; -1 only where neither is known. */
struct price_tier price_rates(const struct price *p, int64_t prompt);

#endif
