/* The report of a route, for people and for programs. */
#include "cmd/price_chain.h"
#include "codec/json_write.h"
#include "price/show.h"

#include <stdio.h>

/* ---- for people ---- */

enum { COL_TARGET = 36, COL_NARROW = 13, COL_NAME = 40 };

static void pad(struct buf *b, size_t from, size_t width)
{
    do
        buf_putc(b, ' ');
    while (b->n - from < width);
}

static void put_money(struct buf *b, int64_t nusd, void (*show)(struct buf *, int64_t, unsigned))
{
    size_t from = b->n;
    show(b, nusd, 4);
    pad(b, from, COL_NARROW);
}

/* Calls out of CHAIN_CALLS as per cent. */
static void put_calls(struct buf *b, int64_t calls)
{
    size_t from = b->n;
    show_fixed(b, show_ratio(calls, CHAIN_CALLS, 100, 4), 4, false);
    buf_puts(b, " %");
    pad(b, from, COL_NARROW);
}

static void put_assumptions(struct buf *b, const struct chain_report *r, const struct chain_options *o)
{
    const struct usage *u = &r->ask.call;
    buf_printf(b, "route %s, for 1,000 calls of %lld tokens in", r->route->model, (long long)u->input);
    if (u->cache_read + u->cache_write_5m + u->cache_write_1h > 0)
        buf_printf(b, " (and %lld read from cache, %lld written to it)", (long long)u->cache_read,
                   (long long)(u->cache_write_5m + u->cache_write_1h));
    buf_printf(b, " and %lld out ", (long long)u->output);
    if (r->n_answered > 0)
        buf_printf(b, "(mean of %lld answers on the ledger)\n", (long long)r->n_answered);
    else
        buf_puts(b, "(assumed)\n");
    buf_puts(b, "links fail independently; an attempt that hangs costs its input and ");
    show_ppm(b, r->ask.waste_ppm);
    buf_printf(b, " of its output%s; one that fails at once costs nothing\n\n",
               o->since != NULL ? " (measured where any was billed)" : "");
}

static void put_link(struct buf *b, const struct chain_report *r, size_t i)
{
    const struct link_conf *l = &r->route->links[i];
    const struct chain_step *s = &r->steady.steps[i];
    const struct chain_link *c = &r->ask.links[i];
    size_t from = b->n;
    buf_printf(b, "%zu  %s/%s", i + 1, l->provider->name, l->model);
    pad(b, from, COL_TARGET);
    put_money(b, chain_alone(c->price, &r->ask.call), show_usd);
    put_calls(b, (int64_t)c->fail_ppm * 1000000);
    put_calls(b, (int64_t)c->hang_ppm * 1000000);
    put_calls(b, s->served);
    put_money(b, s->cost_nusd, show_usd);
    put_money(b, s->waste_nusd, show_usd);
    if (r->is_measured[i])
        buf_printf(b, "%lld attempts", (long long)r->n_attempts[i]);
    else
        buf_puts(b, "assumed");
    buf_putc(b, '\n');
}

/* Where a provider's rule is not that of the head. */
static void put_rule(struct buf *b, const struct chain_report *r, size_t i)
{
    const struct link_conf *l = &r->route->links[i];
    if (r->ask.links[i].cut != ABORT_INPUT_AND_GENERATED)
        buf_printf(b, "%s/%s: an attempt that hangs is %s\n", l->provider->name, l->model,
                   abort_words(l->provider->aborts[ABORT_STREAM]));
}

static void put_percent(struct buf *b, int64_t part, int64_t whole)
{
    size_t from = b->n;
    if (part != NUSD_UNKNOWN && whole > 0) {
        show_fixed(b, show_ratio(part, whole, 100, 2), 2, true);
        buf_puts(b, " %");
    } else {
        buf_putc(b, '-');
    }
    pad(b, from, COL_NARROW);
}

static int64_t net_of(const struct pattern *p)
{
    bool is_known = p->bill_nusd != NUSD_UNKNOWN && p->base_nusd != NUSD_UNKNOWN;
    return is_known ? p->bill_nusd - p->base_nusd : NUSD_UNKNOWN;
}

static void put_pattern(struct buf *b, const struct pattern *p)
{
    size_t from = b->n;
    buf_puts(b, p->name);
    pad(b, from, COL_NAME);
    put_money(b, p->bill_nusd, show_usd);
    if (p->gross_nusd == NUSD_UNKNOWN) {
        from = b->n;
        buf_putc(b, '-');
        pad(b, from, COL_NARROW);
    } else {
        put_money(b, p->gross_nusd, show_change);
    }
    put_money(b, net_of(p), show_change);
    put_percent(b, net_of(p), p->base_nusd);
    while (b->n > 0 && b->p[b->n - 1] == ' ')
        b->n--;
    buf_putc(b, '\n');
}

static void print_text(const struct chain_report *r, const struct chain_options *o)
{
    struct buf b = {0};
    put_assumptions(&b, r, o);
    buf_printf(&b, "%-*s%-*s%-*s%-*s%-*s%-*s%-*s%s\n", COL_TARGET, "link", COL_NARROW, "alone", COL_NARROW, "fails",
               COL_NARROW, "of it hangs", COL_NARROW, "serves", COL_NARROW, "cost", COL_NARROW, "waste", "rates");
    for (size_t i = 0; i < r->ask.n; i++)
        put_link(&b, r, i);
    for (size_t i = 0; i < r->ask.n; i++)
        put_rule(&b, r, i);
    buf_puts(&b, "answered by none: ");
    show_fixed(&b, show_ratio(r->steady.unanswered, CHAIN_CALLS, 100, 6), 6, false);
    buf_printf(&b, " %%; a call waits %lld.%03lld ms for hung attempts, on average\n\n",
               (long long)(r->added_wait_us / 1000), (long long)(r->added_wait_us % 1000));
    buf_printf(&b, "%-*s%-*s%-*s%-*s%s\n", COL_NAME, "per 1,000 calls", COL_NARROW, "bill", COL_NARROW, "gross",
               COL_NARROW, "net", "net, per cent");
    for (size_t i = 0; i < r->n_patterns; i++)
        put_pattern(&b, &r->patterns[i]);
    buf_puts(&b,
             "\ngross: what the attempts cost that no client saw. net: the bill against link 1 alone (cache rows: with "
             "the prefix in its cache).\n");
    for (size_t i = 0; i < r->ask.n; i++)
        if (r->ask.links[i].price == NULL)
            buf_printf(&b, "%s/%s has no known price; give it one in `prices` or `price_file`\n",
                       r->route->links[i].provider->name, r->route->links[i].model);
    fwrite(b.p, 1, b.n, stdout);
    buf_fini(&b);
}

/* ---- for programs ---- */

static void money(struct json_writer *w, const char *name, int64_t nusd)
{
    jw_named_known(w, name, nusd, nusd != NUSD_UNKNOWN);
}

static void call_json(struct json_writer *w, const struct chain_report *r)
{
    const struct usage *u = &r->ask.call;
    jw_key(w, "call");
    jw_object(w);
    jw_named_int(w, "input", u->input);
    jw_named_int(w, "cache_read", u->cache_read);
    jw_named_int(w, "cache_write_5m", u->cache_write_5m);
    jw_named_int(w, "cache_write_1h", u->cache_write_1h);
    jw_named_int(w, "output", u->output);
    jw_named_int(w, "reasoning", u->reasoning);
    jw_named_int(w, "measured_answers", r->n_answered);
    jw_end(w);
}

static void link_json(struct json_writer *w, const struct chain_report *r, size_t i)
{
    const struct link_conf *l = &r->route->links[i];
    const struct chain_step *s = &r->steady.steps[i];
    const struct chain_link *c = &r->ask.links[i];
    jw_object(w);
    jw_named_cstr(w, "provider", l->provider->name);
    jw_named_cstr(w, "model", l->model);
    jw_key(w, "price_version");
    if (c->price == NULL)
        jw_null(w);
    else
        jw_cstr(w, c->price->version);
    jw_named_cstr(w, "rates", r->is_measured[i] ? "measured" : "assumed");
    jw_named_int(w, "attempts", r->n_attempts[i]);
    jw_named_int(w, "fail_ppm", c->fail_ppm);
    jw_named_int(w, "hang_ppm", c->hang_ppm);
    jw_named_int(w, "wait_us", r->wait_us[i]);
    jw_named_cstr(w, "cut", abort_rule_word(c->cut));
    money(w, "alone_nusd", chain_alone(c->price, &r->ask.call));
    jw_named_int(w, "reached", s->reached);
    jw_named_int(w, "served", s->served);
    jw_named_int(w, "failed_at_once", s->fast);
    jw_named_int(w, "hung", s->hung);
    money(w, "cost_nusd", s->cost_nusd);
    money(w, "waste_nusd", s->waste_nusd);
    jw_end(w);
}

static void print_json(const struct chain_report *r)
{
    struct buf b = {0};
    struct json_writer w;
    jw_init(&w, &b);
    jw_object(&w);
    jw_named_cstr(&w, "route", r->route->model);
    jw_named_int(&w, "per_calls", 1000);
    jw_named_int(&w, "calls_out_of", CHAIN_CALLS);
    jw_named_int(&w, "waste_ppm", r->ask.waste_ppm);
    call_json(&w, r);
    jw_key(&w, "links");
    jw_array(&w);
    for (size_t i = 0; i < r->ask.n; i++)
        link_json(&w, r, i);
    jw_end(&w);
    jw_named_int(&w, "unanswered", r->steady.unanswered);
    jw_named_int(&w, "added_wait_us", r->added_wait_us);
    jw_key(&w, "patterns");
    jw_array(&w);
    for (size_t i = 0; i < r->n_patterns; i++) {
        const struct pattern *p = &r->patterns[i];
        jw_object(&w);
        jw_named_cstr(&w, "pattern", p->name);
        money(&w, "bill_nusd", p->bill_nusd);
        money(&w, "gross_nusd", p->gross_nusd);
        money(&w, "net_nusd", net_of(p));
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    buf_putc(&b, '\n');
    fwrite(b.p, 1, b.n, stdout);
    buf_fini(&b);
}

void chain_report_print(const struct chain_report *r, const struct chain_options *o)
{
    if (o->is_json)
        print_json(r);
    else
        print_text(r, o);
}
