/* A provider's usage export or invoice as CSV (RFC 4180; comma, semicolon or tab), read into rows. Columns are known by
 * their names in the first line, whatever their order; a row is one day of one model. Pure. */
#ifndef RM_PRICE_INVOICE_H
#define RM_PRICE_INVOICE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/money.h"
#include "model/usage.h"

enum invoice_column {
    INVOICE_DAY,
    INVOICE_MODEL,
    INVOICE_INPUT,
    INVOICE_READ,
    INVOICE_WRITE_5M,
    INVOICE_WRITE_1H,
    INVOICE_OUTPUT,
    INVOICE_REQUESTS,
    INVOICE_COST,
    INVOICE_N_COLUMNS,
};

struct invoice_row {
    unsigned line;      /* of the file, from 1 */
    int64_t day;        /* since 1970-01-01, UTC */
    struct bytes model; /* in the arena */
    struct usage usage; /* -1 = no such column; input as the column has it, see is_input_named */
    int64_t requests;   /* -1 = no such column */
    int64_t cost_nusd;  /* NUSD_UNKNOWN = no such column; negative = a credit */
};

struct invoice {
    struct invoice_row *rows;
    size_t n;
    size_t n_sums; /* lines that name no day, as a total does: left out */
    bool has[INVOICE_N_COLUMNS];
    bool is_input_named; /* the column's name says that its input is uncached; where it does not, the provider's way of
                            counting decides, which is for the caller to know */
};

/* columns: names of the file's columns where they are not known, by enum; NULL or members NULL = find them. On failure
 * a line for people in `why`, with the line of the file. ERR_MISSING: a column that is needed (day, model, and tokens
 * or cost); ERR_SYNTAX. Rows live in the arena. */
enum err invoice_read(struct bytes text, const char *const columns[INVOICE_N_COLUMNS], struct arena *arena,
                      struct invoice *out, struct buf *why) RM_MUST_USE;
/* The word for a column, as --column takes it. */
const char *invoice_word(enum invoice_column c);

#endif
