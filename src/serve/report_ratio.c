/* How estimates of tokens are made, and how far they are off, for the admin listener: as JSON below a link, and as
 * figures for Prometheus. */
#include "serve/report.h"

#include "base/mem.h"

#include <stdio.h>

static const char *const side_words[RATIO_N_SIDES] = {"prompt", "output"};

/* In thousandths of the unit. */
static void milli(char out[40], int64_t v)
{
    snprintf(out, 40, "%lld.%03lld", (long long)(v / 1000), (long long)(v % 1000));
}

static void side_json(struct json_writer *j, const struct ratio_report *r)
{
    char text[40];
    jw_object(j);
    jw_key(j, "samples");
    jw_uint(j, r->n_samples);
    jw_key(j, "is_known");
    jw_bool(j, r->is_known);
    jw_key(j, "bytes_per_token");
    milli(text, (int64_t)r->milli_bytes);
    jw_raw(j, bytes_of(text));
    jw_key(j, "error");
    milli(text, r->error_permille);
    if (r->error_permille >= 0)
        jw_raw(j, bytes_of(text));
    else
        jw_null(j);
    jw_end(j);
}

void report_ratio_json(struct json_writer *j, const struct ratio_book *b, const struct link_conf *link)
{
    jw_key(j, "estimates");
    jw_object(j);
    for (unsigned side = 0; side < RATIO_N_SIDES; side++) {
        struct ratio_report r;
        (void)ratio_report(b, link->target_id, (enum ratio_side)side, &r);
        jw_key(j, side_words[side]);
        side_json(j, &r);
    }
    jw_end(j);
}

/* ---- Prometheus ---- */

struct texts {
    struct buf bytes, error;
};

static void put_figure(struct buf *out, const char *name, const struct link_conf *link, unsigned side, int64_t v)
{
    char text[40];
    milli(text, v);
    report_target(out, name, link);
    buf_printf(out, ",side=\"%s\"} %s\n", side_words[side], text);
}

static void put_link(struct texts *t, const struct ratio_book *b, const struct link_conf *link)
{
    for (unsigned side = 0; side < RATIO_N_SIDES; side++) {
        struct ratio_report r;
        if (!ratio_report(b, link->target_id, (enum ratio_side)side, &r))
            continue;
        put_figure(&t->bytes, "ringmain_estimate_bytes_per_token", link, side, (int64_t)r.milli_bytes);
        if (r.error_permille >= 0)
            put_figure(&t->error, "ringmain_estimate_error_ratio", link, side, r.error_permille);
    }
}

void report_ratio_metrics(struct buf *out, const struct ratio_book *b, const struct config *c)
{
    struct texts t = {0};
    bool *is_told = mem_zalloc(REGISTRY_TARGETS_MAX * sizeof *is_told); /* a target may stand in several routes */
    for (size_t i = 0; i < c->n_routes; i++)
        for (size_t k = 0; k < c->routes[i].n_links; k++) {
            const struct link_conf *link = &c->routes[i].links[k];
            if (!is_told[link->target_id])
                put_link(&t, b, link);
            is_told[link->target_id] = true;
        }
    mem_free(is_told);
    buf_puts(out,
             "# HELP ringmain_estimate_bytes_per_token Bytes of text that count as a token where none are reported.\n"
             "# TYPE ringmain_estimate_bytes_per_token gauge\n");
    buf_put(out, buf_bytes(&t.bytes));
    buf_puts(out,
             "# HELP ringmain_estimate_error_ratio Mean absolute error of such estimates, of the tokens reported.\n"
             "# TYPE ringmain_estimate_error_ratio gauge\n");
    buf_put(out, buf_bytes(&t.error));
    buf_fini(&t.bytes);
    buf_fini(&t.error);
}
