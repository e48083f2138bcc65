/* The published comparison of July 2026 ("Model fallback chains: designing for provider outages without doubling your
 * bill", 2026-07-18), recomputed: every figure from its stated assumptions and the price book, beside the published
 * one.
 *
 * The article gives amounts under three accountings, and not always says which:
 *   gross         what the attempts cost that no client saw
 *   net           the bill against what the primary alone would have cost
 *   as published  the arithmetic that gives the printed number, right or wrong
 * Pure. */
#ifndef RM_PRICE_ARTICLE_H
#define RM_PRICE_ARTICLE_H

#include "base/buf.h"
#include "price/chain.h"

enum { ARTICLE_FIGURES_MAX = 32, ARTICLE_CORRECTIONS = 3 };
enum article_change { CHANGE_NONE, CHANGE_PERCENT, CHANGE_TIMES };

struct article_figure {
    const char *section; /* equal pointers within one */
    const char *name;
    const char *accounting; /* of the published figure, in words */
    /* What was printed. */
    bool is_added; /* as an amount on top: "+$0.09" */
    int64_t published_cents;
    enum article_change kind;
    int64_t published_change; /* in units of 10^-places, of per cent or times */
    unsigned places;
    /* Ours, nano-dollars per 1,000 calls; NUSD_UNKNOWN = does not apply. */
    int64_t as_published_nusd;
    int64_t change; /* as published, in the units of published_change */
    int64_t bill_nusd, gross_nusd, net_nusd;
    bool agrees; /* ours rounds to what was printed, both the amount and the change */
};

struct article {
    struct article_figure figures[ARTICLE_FIGURES_MAX];
    size_t n;
    int64_t primary_nusd;   /* 1,000 calls of the primary */
    int64_t hedged_nusd[2]; /* with the failures that the article leaves out: cancelled, not cancelled */
};

/* Prices are the book's of 2026-07-18. False: the book lacks one of the four models. */
bool article_compute(const struct price_book *book, struct article *out);
/* One line on a figure that mixes accountings or counts twice; i < ARTICLE_CORRECTIONS. */
void article_correction(const struct article *a, size_t i, struct buf *out);
/* The stated assumptions, in one line. */
const char *article_assumptions(void);

#endif
