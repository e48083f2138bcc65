/* Reads the price catalogue of LiteLLM (`model_prices_and_context_window.json`) and writes it as a price book of our
 * own form: every model that is billed by tokens of text, with tiers, services, cache rates and aliases. What could not
 * be used is told, nothing is guessed: a value that is no price makes a line of the report and no rate.
 *
 * A service of its own are: flex, priority, batches; the multipliers of provider_specific_entry and of regions, under
 * their names; off_peak. Pure. */
#ifndef RM_PRICE_LITELLM_H
#define RM_PRICE_LITELLM_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum { LITELLM_NOTES_MAX = 200, LITELLM_TALLIES_MAX = 128 };

struct litellm_note {
    struct bytes model, member;
    const char *why;
};
/* How often a word came, and where first. */
struct litellm_tally {
    struct bytes word, example;
    size_t n;
};
struct litellm_tallies {
    struct litellm_tally v[LITELLM_TALLIES_MAX];
    size_t n;
};

struct litellm_report {
    struct arena arena;
    size_t n_models;                /* entries of the catalogue that are models */
    size_t n_written;               /* of them in the book */
    size_t n_services;              /* further entries, for services */
    size_t n_tiers;                 /* tiers of standard service */
    size_t n_unpriced;              /* billed by tokens, and no rate is given: their price is unknown */
    struct litellm_tallies modes;   /* of models left out, which are not billed by tokens of text */
    struct litellm_tallies unused;  /* members understood, that no bill for text has a use for */
    struct litellm_tallies strange; /* members not understood */
    struct litellm_note notes[LITELLM_NOTES_MAX];
    size_t n_notes; /* all of them; the first ones are kept */
};

struct litellm_ask {
    struct bytes text;
    const char *source;     /* where it came from, for the book's head */
    const char *valid_from; /* "2026-07-18", or "" */
};

/* Appends the book to `out`. ERR_SYNTAX, ERR_LIMIT, ERR_TYPE: `why` gets a line for people, and `out` is not a book.
 * The report is released by litellm_report_fini in any case. */
enum err litellm_import(const struct litellm_ask *ask, struct buf *out, struct litellm_report *report,
                        struct buf *why) RM_MUST_USE;
void litellm_report_fini(struct litellm_report *r);

#endif
