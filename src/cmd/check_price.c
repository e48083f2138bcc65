#include "cmd/check_price.h"

#include "base/text.h"
#include "price/price.h"

#include <stdio.h>

enum { DAY_BYTES = 11 };

static void cut_zeros(struct buf *out, size_t from)
{
    while (out->n > from && out->p[out->n - 1] == '0')
        out->n--;
    if (out->p[out->n - 1] == '.')
        out->n--;
}

/* Pico-dollars a token are millionths of a dollar per million tokens; trailing zeros are left out. */
static void put_rate(struct buf *out, int64_t rate)
{
    size_t from = out->n;
    if (rate < 0) {
        buf_puts(out, "?");
        return;
    }
    buf_printf(out, "%lld.%06lld", (long long)(rate / 1000000), (long long)(rate % 1000000));
    cut_zeros(out, from);
}

static void put_request(struct buf *out, int64_t pusd)
{
    const int64_t usd = INT64_C(1000000000000);
    size_t from = out->n;
    buf_printf(out, "%lld.%012lld", (long long)(pusd / usd), (long long)(pusd % usd));
    cut_zeros(out, from);
}

/* The last day before that moment. */
static void day_before(int64_t wall_ms, char out[DAY_BYTES])
{
    char whole[TEXT_TIME_BYTES];
    text_time(wall_ms - 1, whole);
    memcpy(out, whole, DAY_BYTES - 1);
    out[DAY_BYTES - 1] = '\0';
}

/* The class of span i, if an attempt would be priced by this span now; else NULL. */
static const char *class_of(const struct fare *f, size_t i, int64_t wall_ms)
{
    bool is_standin;
    const struct fare_span *s = &f->v[i];
    bool is_meant = s->service[0] != '\0' && fare_at(f, s->service, wall_ms, &is_standin) == s->price;
    return is_meant ? s->service : NULL;
}

static void put_pair(struct buf *out, int64_t input, int64_t output)
{
    put_rate(out, input);
    buf_puts(out, " in, ");
    put_rate(out, output);
    buf_puts(out, " out");
}

static void put_more(struct buf *out, const struct price *p)
{
    const struct price_more *m = p->more;
    if (m == NULL)
        return;
    if (m->reasoning >= 0) {
        buf_puts(out, ", reasoning ");
        put_rate(out, m->reasoning);
    }
    if (m->request > 0) {
        buf_puts(out, ", ");
        put_request(out, m->request);
        buf_puts(out, " USD a request");
    }
    for (size_t i = 0; i < m->n_tiers; i++) {
        const struct price_tier *t = &m->tiers[i];
        struct price_tier r = price_rates(p, t->above + 1);
        buf_printf(out, "; above %lld tokens ", (long long)t->above);
        put_pair(out, r.input, r.output);
    }
}

void check_price_text(struct buf *out, const struct link_conf *link, int64_t wall_ms)
{
    bool is_standin;
    const struct price *p = link_price(link, "", wall_ms, &is_standin);
    int64_t end_ms = fare_end_ms(link->fare, wall_ms);
    char day[DAY_BYTES];
    if (end_ms != INT64_MAX)
        day_before(end_ms, day);
    if (p == NULL) {
        buf_puts(out, "price unknown");
        if (end_ms != INT64_MAX)
            buf_printf(out, ", the last one ended with %s", day);
        return;
    }
    put_pair(out, p->input, p->output);
    buf_puts(out, " USD per million tokens");
    put_more(out, p);
    if (end_ms != INT64_MAX)
        buf_printf(out, "; none is known after %s", day);
    for (size_t i = 0; link->fare != NULL && i < link->fare->n; i++) {
        const char *word = class_of(link->fare, i, wall_ms);
        if (word == NULL)
            continue;
        buf_printf(out, "; %s ", word);
        put_pair(out, link->fare->v[i].price->input, link->fare->v[i].price->output);
    }
}

/* ---- for programs ---- */

static void write_rate(struct json_writer *w, const char *name, int64_t rate)
{
    struct buf text = {0};
    jw_key(w, name);
    put_rate(&text, rate);
    if (rate < 0)
        jw_null(w);
    else
        jw_string(w, buf_bytes(&text));
    buf_fini(&text);
}

static void write_tiers(struct json_writer *w, const struct price_more *m)
{
    jw_key(w, "tiers");
    jw_array(w);
    for (size_t i = 0; i < m->n_tiers; i++) {
        const struct price_tier *t = &m->tiers[i];
        jw_object(w);
        jw_key(w, "above");
        jw_int(w, t->above);
        jw_key(w, "inclusive");
        jw_bool(w, t->is_inclusive);
        write_rate(w, "input", t->input);
        write_rate(w, "output", t->output);
        write_rate(w, "cache_read", t->cache_read);
        write_rate(w, "cache_write_5m", t->cache_write_5m);
        write_rate(w, "cache_write_1h", t->cache_write_1h);
        write_rate(w, "reasoning", t->reasoning);
        jw_end(w);
    }
    jw_end(w);
}

static void write_price(struct json_writer *w, const struct price *p)
{
    struct buf text = {0};
    write_rate(w, "input", p->input);
    write_rate(w, "output", p->output);
    write_rate(w, "cache_read", p->cache_read);
    write_rate(w, "cache_write_5m", p->cache_write_5m);
    write_rate(w, "cache_write_1h", p->cache_write_1h);
    if (p->more != NULL) {
        write_rate(w, "reasoning", p->more->reasoning);
        put_request(&text, p->more->request);
        jw_key(w, "request");
        jw_string(w, buf_bytes(&text));
        write_tiers(w, p->more);
    }
    jw_key(w, "version");
    jw_cstr(w, p->version);
    buf_fini(&text);
}

void check_price_json(struct json_writer *w, const struct link_conf *link, int64_t wall_ms)
{
    bool is_standin;
    const struct price *p = link_price(link, "", wall_ms, &is_standin);
    int64_t end_ms = fare_end_ms(link->fare, wall_ms);
    char day[DAY_BYTES];
    if (p == NULL) {
        jw_null(w);
        return;
    }
    jw_object(w);
    write_price(w, p);
    jw_key(w, "valid_until");
    if (end_ms != INT64_MAX) {
        day_before(end_ms, day);
        jw_cstr(w, day);
    } else {
        jw_null(w);
    }
    jw_key(w, "services");
    jw_object(w);
    for (size_t i = 0; link->fare != NULL && i < link->fare->n; i++) {
        const char *word = class_of(link->fare, i, wall_ms);
        if (word == NULL)
            continue;
        jw_key(w, word);
        jw_object(w);
        write_price(w, link->fare->v[i].price);
        jw_end(w);
    }
    jw_end(w);
    jw_end(w);
}
