/* Policies by --set: a table of names and where they stand. Defaults and bounds are those of the configuration. */
#include "cmd/price_whatif.h"
#include "price/show.h"

#include <stddef.h>
#include <string.h>

enum set_kind { SET_NUMBER, SET_BUDGET, SET_HEDGE, SET_AFTER, SET_SHARE, SET_BREAKER, SET_ORDER, SET_MODE, SET_WORD };

struct set_row {
    const char *name;
    enum set_kind kind;
    bool is_link;
    size_t offset;           /* of a uint32_t: in the link or the route */
    uint32_t min, max, unit; /* unit: of SET_SHARE, parts of one */
    const char *words;       /* of SET_WORD, in the order of its values */
};
#define LINK(m) true, offsetof(struct link_conf, m)
#define ROUTE(m) false, offsetof(struct route_conf, m)

static const struct set_row set_rows[] = {
    {"order", SET_ORDER, ROUTE(links), 0, 0, 0, NULL},
    {"ttft_budget_ms", SET_BUDGET, LINK(ttft_budget_ms), 10, 3600000, 0, NULL},
    {"ttft_budget_mode", SET_MODE, ROUTE(ttft_auto), 0, 0, 0, NULL},
    {"connect_timeout_ms", SET_NUMBER, LINK(connect_timeout_ms), 10, 600000, 0, NULL},
    {"idle_timeout_ms", SET_NUMBER, LINK(idle_timeout_ms), 10, 3600000, 0, NULL},
    {"total_budget_ms", SET_NUMBER, LINK(total_budget_ms), 10, 86400000, 0, NULL},
    {"retries", SET_NUMBER, LINK(retries), 0, 10, 0, NULL},
    {"deadline_ms", SET_NUMBER, ROUTE(deadline_ms), 10, 86400000, 0, NULL},
    {"max_attempts", SET_NUMBER, ROUTE(max_attempts), 1, 1000, 0, NULL},
    {"wait_retry_after_ms", SET_NUMBER, ROUTE(wait_retry_after_ms), 0, 600000, 0, NULL},
    {"hedge", SET_HEDGE, ROUTE(hedge), 0, 0, 0, NULL},
    {"hedge.after", SET_AFTER, ROUTE(hedge.after_ms), 10, 3600000, 0, NULL},
    {"hedge.max_extra_spend", SET_SHARE, ROUTE(hedge.max_extra_permyriad), 1, 10000, 10000, NULL},
    {"hedge.max_per_minute", SET_NUMBER, ROUTE(hedge.max_per_minute), 1, 1000000, 0, NULL},
    {"breaker", SET_BREAKER, ROUTE(breaker), 0, 0, 0, NULL},
    {"breaker.failures", SET_NUMBER, ROUTE(breaker.failures), 1, 1000000, 0, NULL},
    {"breaker.ratio", SET_SHARE, ROUTE(breaker.ratio_permille), 1, 1000, 1000, NULL},
    {"breaker.ratio_min", SET_NUMBER, ROUTE(breaker.ratio_min), 1, 1000000, 0, NULL},
    {"breaker.window_ms", SET_NUMBER, ROUTE(breaker.window_ms), 1000, 3600000, 0, NULL},
    {"breaker.cooldown_ms", SET_NUMBER, ROUTE(breaker.cooldown_ms), 10, 3600000, 0, NULL},
    {"breaker.cooldown_max_ms", SET_NUMBER, ROUTE(breaker.cooldown_max_ms), 10, 86400000, 0, NULL},
    {"ttft_auto.min_ms", SET_NUMBER, ROUTE(ttft_auto.min_ms), 10, 3600000, 0, NULL},
    {"ttft_auto.max_ms", SET_NUMBER, ROUTE(ttft_auto.max_ms), 10, 3600000, 0, NULL},
    {"ttft_auto.fallback_ms", SET_NUMBER, ROUTE(ttft_auto.fallback_ms), 10, 3600000, 0, NULL},
    {"cache.standby", SET_WORD, ROUTE(cache.standby), 0, 0, 0, "never, expected_value, sustained, always"},
    {"cache.sustained_after_ms", SET_NUMBER, ROUTE(cache.sustained_after_ms), 0, 86400000, 0, NULL},
    {"cache.return", SET_WORD, ROUTE(cache.goes_back), 0, 0, 0, "at_once, by_value"},
    {"cache.affinity", SET_WORD, ROUTE(cache.affinity), 0, 0, 0, "off, on"},
};

void policy_init(struct policy *p, struct config *config, const struct route_conf *route)
{
    RM_ASSERT(route->n_links <= POLICY_LINKS_MAX);
    *p = (struct policy){.route = *route};
    memcpy(p->links, route->links, route->n_links * sizeof *p->links);
    p->route.links = p->links;
    p->route.index = 0;
    p->config.providers = config->providers;
    p->config.n_providers = config->n_providers;
    p->config.limits = config->limits;
    p->config.routes = &p->route;
    p->config.n_routes = 1;
    /* Keys are not needed to look back, and often are not there; who had none then is on record as skipped. */
    for (size_t i = 0; i < config->n_providers; i++)
        config->providers[i].is_off = false;
}

/* ---- values ---- */

static void words_of(const struct set_row *row, struct buf *out)
{
    switch (row->kind) {
    case SET_NUMBER:
        buf_printf(out, "a whole number from %u to %u", row->min, row->max);
        return;
    case SET_BUDGET:
        buf_printf(out, "auto, or milliseconds from %u to %u", row->min, row->max);
        return;
    case SET_AFTER:
        buf_printf(out, "p95, or milliseconds from %u to %u", row->min, row->max);
        return;
    case SET_HEDGE:
        buf_puts(out, "on, or off");
        return;
    case SET_SHARE:
        buf_puts(out, "a share such as 2% or 0.02");
        return;
    case SET_BREAKER:
        buf_puts(out, "on, or off");
        return;
    case SET_MODE:
        buf_puts(out, "enforce, or shadow");
        return;
    case SET_WORD:
        buf_printf(out, "one of %s", row->words);
        return;
    case SET_ORDER:
        buf_puts(out, "links of the route, as provider or provider/model, with commas between");
        return;
    }
    RM_UNREACHABLE();
}

static bool number_in(struct bytes text, uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t v;
    if (!bytes_to_u64(text, &v) || v < min || v > max)
        return false;
    *out = (uint32_t)v;
    return true;
}

/* What is off in the configuration has no values there. */
static void hedge_defaults(struct hedge_conf *h)
{
    h->max_extra_permyriad = h->max_extra_permyriad != 0 ? h->max_extra_permyriad : 200;
    h->max_per_minute = h->max_per_minute != 0 ? h->max_per_minute : 60;
}

static void breaker_defaults(struct breaker_conf *b)
{
    if (b->failures == 0)
        *b = (struct breaker_conf){.failures = 5,
                                   .ratio_permille = 500,
                                   .ratio_min = 10,
                                   .window_ms = 30000,
                                   .cooldown_ms = 5000,
                                   .cooldown_max_ms = 60000};
}

static bool read_switch(struct bytes text, bool *is_on)
{
    *is_on = bytes_is(text, "on");
    return *is_on || bytes_is(text, "off");
}

static bool set_share(const struct set_row *row, struct bytes text, uint32_t *out)
{
    uint32_t ppm;
    if (!show_ppm_parse(text, &ppm))
        return false;
    uint32_t v = (uint32_t)(((uint64_t)ppm * row->unit + 500000) / 1000000);
    if (v < row->min || v > row->max)
        return false;
    *out = v;
    return true;
}

static bool set_word(const struct set_row *row, struct bytes text, uint32_t *out)
{
    struct bytes rest = bytes_of(row->words);
    for (uint32_t v = 0; rest.p != NULL; v++) {
        struct bytes word = bytes_trim(bytes_cut(&rest, ','));
        if (!bytes_eq(word, text))
            continue;
        *out = v;
        return true;
    }
    return false;
}

static bool set_budget(const struct set_row *row, const struct route_conf *route, struct bytes text,
                       struct link_conf *l)
{
    l->is_auto_budget = bytes_is(text, "auto");
    if (!l->is_auto_budget)
        return number_in(text, row->min, row->max, &l->ttft_budget_ms);
    l->ttft_budget_ms = route->ttft_auto.fallback_ms;
    return true;
}

/* ---- the order ---- */

static bool is_named(const struct link_conf *l, struct bytes name)
{
    size_t slash = bytes_find_byte(name, '/');
    if (slash >= name.n)
        return bytes_is(name, l->provider->name);
    return bytes_is(bytes_slice(name, 0, slash), l->provider->name) &&
           bytes_is(bytes_slice(name, slash + 1, name.n), l->model);
}

/* Neighbours that were equals stay so. */
static void number_equals(struct link_conf *links, size_t n)
{
    uint16_t was[POLICY_LINKS_MAX];
    for (size_t i = 0; i < n; i++) {
        was[i] = links[i].equals;
        links[i].equals = i > 0 && was[i] == was[i - 1] ? links[i - 1].equals : (uint16_t)i;
    }
}

/* A configuration without affinity has no equals: neighbours that serve one model become so. */
static void find_equals(struct policy *p)
{
    for (size_t i = 1; i < p->route.n_links; i++)
        if (strcmp(p->links[i].model, p->links[i - 1].model) == 0)
            p->links[i].equals = p->links[i - 1].equals;
}

static bool set_order(struct policy *p, struct bytes text, struct buf *why)
{
    struct link_conf links[POLICY_LINKS_MAX];
    size_t n = 0;
    for (struct bytes rest = text; rest.p != NULL;) {
        struct bytes name = bytes_trim(bytes_cut(&rest, ','));
        size_t i = 0;
        while (i < p->route.n_links && !is_named(&p->links[i], name))
            i++;
        if (i == p->route.n_links || n == POLICY_LINKS_MAX) {
            buf_printf(why, "'%.*s' is no link of route %s; it has:", (int)name.n, name.p, p->route.model);
            for (size_t k = 0; k < p->route.n_links; k++)
                buf_printf(why, " %s/%s", p->links[k].provider->name, p->links[k].model);
            buf_puts(why, " (another chain: --policy FILE)");
            return false;
        }
        links[n] = p->links[i];
        links[n].index = (uint16_t)n;
        n++;
    }
    number_equals(links, n);
    memcpy(p->links, links, n * sizeof *links);
    p->route.n_links = n;
    return true;
}

/* ---- setting ---- */

static bool set_route(struct policy *p, const struct set_row *row, struct bytes value)
{
    struct route_conf *r = &p->route;
    uint32_t *number = (uint32_t *)(void *)((char *)r + row->offset);
    bool is_on = true, ok;
    switch (row->kind) {
    case SET_HEDGE:
        ok = read_switch(value, &is_on);
        hedge_defaults(&r->hedge);
        r->hedge.is_on = is_on;
        return ok;
    case SET_AFTER:
        hedge_defaults(&r->hedge);
        *number = 0;
        return bytes_is(value, "p95") || number_in(value, row->min, row->max, number);
    case SET_BREAKER:
        ok = read_switch(value, &is_on);
        breaker_defaults(&r->breaker);
        r->breaker.is_off = !is_on;
        return ok;
    case SET_MODE:
        r->ttft_auto.is_shadow = bytes_is(value, "shadow");
        return r->ttft_auto.is_shadow || bytes_is(value, "enforce");
    case SET_SHARE:
        return set_share(row, value, number);
    case SET_WORD:
        ok = set_word(row, value, number);
        if (ok && r->cache.affinity != 0)
            find_equals(p);
        return ok;
    default:
        return number_in(value, row->min, row->max, number);
    }
}

static bool set_links(struct policy *p, const struct set_row *row, size_t from, size_t to, struct bytes value)
{
    for (size_t i = from; i < to; i++) {
        struct link_conf *l = &p->links[i];
        uint32_t *number = (uint32_t *)(void *)((char *)l + row->offset);
        bool ok = row->kind == SET_BUDGET ? set_budget(row, &p->route, value, l)
                                          : number_in(value, row->min, row->max, number);
        if (!ok)
            return false;
    }
    return true;
}

static const struct set_row *find_row(struct bytes name)
{
    for (size_t i = 0; i < RM_COUNTOF(set_rows); i++)
        if (bytes_is(name, set_rows[i].name))
            return &set_rows[i];
    return NULL;
}

static bool tell_unknown(struct bytes name, struct buf *why)
{
    const char *nearest = NULL;
    unsigned best = 4;
    for (size_t i = 0; i < RM_COUNTOF(set_rows); i++) {
        unsigned d = bytes_distance(name, bytes_of(set_rows[i].name), best);
        if (d < best) {
            best = d;
            nearest = set_rows[i].name;
        }
    }
    buf_printf(why, "'%.*s' is no setting that can be tried", (int)name.n, name.p);
    if (nearest != NULL)
        buf_printf(why, "; did you mean %s?", nearest);
    else
        buf_puts(why, "; `ringmain price what-if --help` lists them");
    return false;
}

bool policy_set(struct policy *p, const char *text, struct buf *why)
{
    struct bytes value = bytes_of(text), name = bytes_trim(bytes_cut(&value, '='));
    uint64_t n = 0;
    if (value.p == NULL) {
        buf_puts(why, "expected NAME=VALUE");
        return false;
    }
    value = bytes_trim(value);
    if (bytes_starts_with(name, BYTES("route.")))
        name = bytes_slice(name, strlen("route."), name.n);
    bool is_one = bytes_starts_with(name, BYTES("link."));
    if (is_one) {
        struct bytes rest = bytes_slice(name, strlen("link."), name.n), at = bytes_cut(&rest, '.');
        if (rest.p == NULL || !bytes_to_u64(at, &n) || n < 1 || n > p->route.n_links) {
            buf_printf(why, "links are link.1 to link.%zu", p->route.n_links);
            return false;
        }
        name = rest;
    }
    const struct set_row *row = find_row(name);
    if (row == NULL || (is_one && !row->is_link))
        return tell_unknown(name, why);
    if (row->kind == SET_ORDER)
        return set_order(p, value, why);
    size_t from = is_one ? (size_t)n - 1 : 0, to = is_one ? (size_t)n : p->route.n_links;
    bool ok = row->is_link ? set_links(p, row, from, to, value) : set_route(p, row, value);
    if (ok)
        return true;
    buf_printf(why, "%s takes ", row->name);
    words_of(row, why);
    return false;
}

void policy_help(struct buf *out)
{
    for (size_t i = 0; i < RM_COUNTOF(set_rows); i++) {
        buf_printf(out, "    %-26s", set_rows[i].name);
        words_of(&set_rows[i], out);
        buf_putc(out, '\n');
    }
}
