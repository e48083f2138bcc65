/* ringmain price: what resilience costs on a route of the configuration, with rates that are assumed or measured. */
#include "cmd/price_chain.h"

#include "cmd/ledger.h"
#include "cmd/load.h"
#include "cmd/price.h"
#include "ledger/rates.h"
#include "price/show.h"

#include <stdio.h>

/* ---- the patterns ---- */

static void put(struct chain_report *r, const char *name, int64_t bill, int64_t gross, int64_t base)
{
    RM_ASSERT(r->n_patterns < PATTERNS_MAX);
    r->patterns[r->n_patterns++] = (struct pattern){name, bill, gross, base};
}

/* The chain with other shares for its first link. */
static void put_first(struct chain_report *r, const char *name, uint32_t fail_ppm, uint32_t hang_ppm, int64_t base)
{
    struct chain_ask ask = r->ask;
    struct chain_bill b;
    ask.links[0].fail_ppm = fail_ppm;
    ask.links[0].hang_ppm = hang_ppm;
    chain_sequential(&ask, &b);
    put(r, name, b.cost_nusd, b.waste_nusd, base);
}

static void put_caches(struct chain_report *r, int64_t prefix)
{
    const struct price *first = r->ask.links[0].price, *second = r->ask.links[1].price;
    struct usage warm = r->ask.call, cold = warm, written = warm;
    warm.cache_read += prefix;
    cold.input += prefix;
    written.cache_write_5m += prefix;
    int64_t base = chain_alone(first, &warm);
    put(r, "link 1, prefix in its cache", base, NUSD_UNKNOWN, base);
    put(r, "link 2, cold", chain_alone(second, &cold), NUSD_UNKNOWN, base);
    put(r, "link 2, writing its cache", chain_alone(second, &written), NUSD_UNKNOWN, base);
    put(r, "link 2, warm", chain_alone(second, &warm), NUSD_UNKNOWN, base);
}

void chain_report_compute(struct chain_report *r, const struct chain_options *o)
{
    const struct chain_ask *ask = &r->ask;
    int64_t base = chain_alone(ask->links[0].price, &ask->call);
    __int128 wait = 0;
    chain_sequential(ask, &r->steady);
    for (size_t i = 0; i < ask->n; i++)
        wait += (__int128)r->steady.steps[i].hung * r->wait_us[i];
    r->added_wait_us = (int64_t)((wait + CHAIN_CALLS / 2) / CHAIN_CALLS);
    put(r, "link 1 alone, never failing", base, 0, base);
    put(r, "sequential", r->steady.cost_nusd, r->steady.waste_nusd, base);
    if (ask->n < 2)
        return;
    put(r, "hedged with link 2, loser cancelled", chain_hedged(ask, true), NUSD_UNKNOWN, base);
    put(r, "hedged with link 2, both to the end", chain_hedged(ask, false), NUSD_UNKNOWN, base);
    put_first(r, "outage of link 1, failing at once", PPM, 0, base);
    put_first(r, "outage of link 1, hanging", PPM, PPM, base);
    if (o->tight_ppm > 0)
        put_first(r, "budget too tight for healthy calls", o->tight_ppm, PPM, base);
    if (o->prefix > 0)
        put_caches(r, o->prefix);
}

/* ---- rates ---- */

static int wrong(const char *option, const char *value, const char *expected)
{
    fprintf(stderr, "ringmain price: %s is '%s'; expected %s\n", option, value, expected);
    return 2;
}

/* "0.5%,0.2%": the last one counts for the links after it. */
static int assume_failures(struct chain_report *r, const struct chain_options *o)
{
    struct bytes rest = bytes_of(o->failures);
    uint32_t ppm = 0;
    for (size_t i = 0; i < r->ask.n; i++) {
        if (rest.p != NULL && !show_ppm_parse(bytes_trim(bytes_cut(&rest, ',')), &ppm))
            return wrong("--failure-rate", o->failures, "shares such as 0.5%, one or one for each link");
        r->ask.links[i].fail_ppm = ppm;
        r->ask.links[i].hang_ppm = o->hang_ppm;
    }
    if (rest.p != NULL)
        return wrong("--failure-rate", o->failures, "no more shares than the route has links");
    return 0;
}

static uint32_t share_of(int64_t part, int64_t whole)
{
    return whole <= 0 ? 0 : (uint32_t)show_ratio(part, whole, 1, 6);
}

static int64_t mean(int64_t sum, int64_t n)
{
    return n <= 0 ? 0 : (sum + n / 2) / n;
}

static const struct target_rate *rate_of(const struct route_rates *rates, const struct link_conf *l)
{
    for (size_t i = 0; i < rates->n; i++)
        if (strcmp(rates->targets[i].provider, l->provider->name) == 0 &&
            strcmp(rates->targets[i].model, l->model) == 0)
            return &rates->targets[i];
    return NULL;
}

static void measure_call(struct chain_report *r, const struct route_rates *m)
{
    const struct usage *u = &m->answered;
    int64_t n = m->n_answered;
    if (n == 0)
        return;
    r->n_answered = n;
    r->ask.call = (struct usage){mean(u->input, n),          mean(u->cache_read, n), mean(u->cache_write_5m, n),
                                 mean(u->cache_write_1h, n), mean(u->output, n),     mean(u->reasoning, n)};
}

static void measure(struct chain_report *r, const struct route_rates *m)
{
    int64_t n_billed = 0, output = 0;
    measure_call(r, m);
    for (size_t i = 0; i < r->ask.n; i++) {
        const struct target_rate *t = rate_of(m, &r->route->links[i]);
        if (t == NULL)
            continue;
        r->is_measured[i] = true;
        r->n_attempts[i] = t->n_attempts;
        r->ask.links[i].fail_ppm = share_of(t->n_failed, t->n_attempts);
        r->ask.links[i].hang_ppm = share_of(t->n_billed, t->n_failed);
        if (t->n_billed > 0)
            r->wait_us[i] = mean(t->billed_us, t->n_billed);
        n_billed += t->n_billed;
        output += t->billed_output;
    }
    if (n_billed > 0 && r->ask.call.output > 0) {
        uint32_t ppm = share_of(mean(output, n_billed), r->ask.call.output);
        r->ask.waste_ppm = ppm > PPM ? PPM : ppm;
        for (size_t i = 0; i < r->ask.n; i++) /* the rules are in what was measured */
            r->ask.links[i].cut = ABORT_INPUT_AND_GENERATED;
    }
}

static int read_ledger(struct chain_report *r, const struct chain_options *o, const struct config *c)
{
    struct ledger_reader *reader = NULL;
    struct arena arena = {0};
    struct route_rates rates;
    char message[400] = "";
    int64_t since_ms = 0;
    if (*c->ledger == '\0') {
        fprintf(stderr, "ringmain price: the ledger is off in %s\n", o->config);
        return 1;
    }
    if (ledger_reader_open(c->ledger, &reader, message, sizeof message) != ERR_OK) {
        fprintf(stderr, "ringmain price: %s\n", message);
        return 1;
    }
    int code = 0;
    if (!ledger_since(reader, o->since, &since_ms)) {
        code = wrong("--from-ledger", o->since, "30m, 24h, 7d or a time like 2026-11-30T07:00:00Z");
    } else if (rates_read(reader, r->route->model, since_ms, &arena, &rates) != ERR_OK) {
        fprintf(stderr, "ringmain price: %s\n", reader_error(reader));
        code = 1;
    } else if (rates.n == 0) {
        fprintf(stderr, "ringmain price: the ledger has no attempt of route %s in that time\n", r->route->model);
        code = 1;
    } else {
        measure(r, &rates);
    }
    arena_fini(&arena);
    ledger_reader_close(reader);
    return code;
}

/* ---- the route ---- */

static const struct route_conf *choose_route(const struct config *c, const struct chain_options *o)
{
    const struct route_conf *route = NULL;
    if (o->route != NULL)
        route = config_route(c, bytes_of(o->route));
    else if (c->n_routes == 1)
        route = &c->routes[0];
    if (route != NULL)
        return route;
    if (o->route != NULL)
        fprintf(stderr, "ringmain price: %s has no route '%s'; it has:", o->config, o->route);
    else
        fprintf(stderr, "ringmain price: which route of %s? --route takes one of:", o->config);
    for (size_t i = 0; i < c->n_routes; i++)
        fprintf(stderr, " %s", c->routes[i].model);
    fputc('\n', stderr);
    return NULL;
}

static int report(const struct chain_options *o, const struct config *c)
{
    struct chain_report r = {.route = choose_route(c, o)};
    if (r.route == NULL)
        return 1;
    r.ask.n = r.route->n_links < CHAIN_LINKS_MAX ? r.route->n_links : CHAIN_LINKS_MAX;
    r.ask.call = o->call;
    r.ask.waste_ppm = o->waste_ppm;
    for (size_t i = 0; i < r.ask.n; i++) {
        r.ask.links[i].price = r.route->links[i].price;
        if (!o->has_waste)
            r.ask.links[i].cut = r.route->links[i].provider->aborts[ABORT_STREAM].rule;
        r.wait_us[i] = (int64_t)r.route->links[i].ttft_budget_ms * 1000;
    }
    int code = assume_failures(&r, o);
    if (code == 0 && o->since != NULL)
        code = read_ledger(&r, o, c);
    if (code != 0)
        return code;
    chain_report_compute(&r, o);
    chain_report_print(&r, o);
    return 0;
}

int price_chain(const struct chain_options *o)
{
    struct config_faults faults = {0};
    struct config *config = NULL;
    int code = 1;
    if (config_load_file(o->config, &faults, &config) == ERR_OK) {
        code = report(o, config);
    } else {
        struct buf text = {0};
        config_faults_text(&faults, &text);
        fputs(buf_cstr(&text), stderr);
        buf_fini(&text);
    }
    config_faults_fini(&faults);
    config_unref(config);
    return code;
}
