/* x-routing = directive *( ";" directive ), each at most once; anything not understood is an error with a text that
 * says what was expected, because a client that steers must not be steered silently. */
#include "plan/directive.h"

enum { TTFT_MS_MIN = 100, ENTRIES_MAX = 64 };

struct parse {
    const struct route_conf *route;
    struct arena *arena;
    struct directive *out;
    unsigned seen; /* CLIENT_* */
    const char **why;
};

static enum err refuse(struct parse *p, struct bytes why)
{
    *p->why = why.p;
    return ERR_SYNTAX;
}

#define WHY(p, ...) refuse((p), arena_printf((p)->arena, __VA_ARGS__))
#define TEXT(b) (int)((b).n > 80 ? 80 : (b).n), ((b).p ? (b).p : "")

static const char *known_links(struct parse *p)
{
    struct bytes text = BYTES("");
    for (size_t i = 0; i < p->route->n_links && i < 16; i++) {
        const struct link_conf *l = &p->route->links[i];
        text = arena_printf(p->arena, "%.*s%s%s/%s", (int)text.n, text.p, i ? ", " : "", l->provider->name, l->model);
    }
    return text.p;
}

static const struct link_conf *find_link(const struct route_conf *route, struct bytes provider, struct bytes model,
                                         bool has_model)
{
    for (size_t i = 0; i < route->n_links; i++) {
        const struct link_conf *l = &route->links[i];
        if (bytes_is(provider, l->provider->name) && (!has_model || bytes_is(model, l->model)))
            return l;
    }
    return NULL;
}

static enum err take_order(struct parse *p, struct bytes value)
{
    struct directive *d = p->out;
    d->order = ARENA_ARRAY(p->arena, const struct link_conf *, ENTRIES_MAX);
    struct bytes rest = value;
    while (rest.p != NULL) {
        struct bytes entry = bytes_trim(bytes_cut(&rest, ','));
        struct bytes model = entry;
        struct bytes provider = bytes_cut(&model, '/');
        if (entry.n == 0)
            return WHY(p, "x-routing: an entry of order is empty");
        const struct link_conf *l = find_link(p->route, provider, model, model.p != NULL);
        if (!l)
            return WHY(p, "x-routing: '%.*s' is not in this route's chain; known: %s", TEXT(entry), known_links(p));
        for (size_t i = 0; i < d->n_order; i++)
            if (d->order[i] == l)
                return WHY(p, "x-routing: '%.*s' stands twice in order", TEXT(entry));
        if (d->n_order == ENTRIES_MAX)
            return WHY(p, "x-routing: more than %d entries in order", ENTRIES_MAX);
        d->order[d->n_order++] = l;
    }
    return ERR_OK;
}

static enum err take_ms(struct parse *p, const char *name, struct bytes value, uint64_t min, uint64_t max,
                        uint32_t *out)
{
    uint64_t ms;
    if (!bytes_to_u64(value, &ms) || ms < min || ms > max)
        return WHY(p, "x-routing: %s is milliseconds from %llu to %llu, not '%.*s'", name, (unsigned long long)min,
                   (unsigned long long)max, TEXT(value));
    *out = (uint32_t)ms;
    return ERR_OK;
}

static uint64_t budget_max(const struct route_conf *route)
{
    uint64_t max = TTFT_MS_MIN;
    for (size_t i = 0; i < route->n_links; i++)
        max = route->links[i].ttft_budget_ms > max ? route->links[i].ttft_budget_ms : max;
    return max;
}

static enum err take_value(struct parse *p, unsigned which, struct bytes value)
{
    switch (which) {
    case CLIENT_ORDER:
        return take_order(p, value);
    case CLIENT_TTFT:
        return take_ms(p, "ttft", value, TTFT_MS_MIN, budget_max(p->route), &p->out->ttft_ms);
    case CLIENT_DEADLINE:
        return take_ms(p, "deadline", value, 1, p->route->deadline_ms, &p->out->deadline_ms);
    default:
        p->out->fallback_off = bytes_is(value, "off");
        if (!p->out->fallback_off && !bytes_is(value, "on"))
            return WHY(p, "x-routing: fallback is on or off, not '%.*s'", TEXT(value));
        return ERR_OK;
    }
}

static enum err take_directive(struct parse *p, struct bytes text)
{
    static const struct {
        const char *name;
        unsigned which;
    } names[] = {
        {"order", CLIENT_ORDER}, {"ttft", CLIENT_TTFT}, {"deadline", CLIENT_DEADLINE}, {"fallback", CLIENT_FALLBACK}};
    struct bytes value = bytes_trim(text);
    struct bytes name = bytes_cut(&value, ':');
    for (size_t i = 0; i < RM_COUNTOF(names); i++) {
        if (value.p == NULL || !bytes_eq_nocase(name, bytes_of(names[i].name)))
            continue;
        if (p->seen & names[i].which)
            return WHY(p, "x-routing: %s stands twice", names[i].name);
        if (!(p->route->client_routing & names[i].which))
            return WHY(p, "x-routing: this route does not let clients set %s", names[i].name);
        p->seen |= names[i].which;
        return take_value(p, names[i].which, bytes_trim(value));
    }
    return WHY(p, "x-routing: '%.*s' is not a directive; known: order:, ttft:, deadline:, fallback:", TEXT(name));
}

static enum err take_routing(struct parse *p, struct bytes header)
{
    struct bytes rest = header;
    while (rest.p != NULL) {
        enum err e = take_directive(p, bytes_cut(&rest, ';'));
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

static enum err take_cache(struct parse *p, struct bytes header)
{
    struct bytes value = bytes_trim(header);
    struct bytes name = bytes_trim(bytes_cut(&value, '='));
    uint64_t s;
    if (!bytes_eq_nocase(name, BYTES("ttl")) || !bytes_to_u64(bytes_trim(value), &s) || s == 0 || s > 86400)
        return WHY(p, "x-cache: expected ttl=<seconds> from 1 to 86400");
    p->out->cache_ttl_s = (uint32_t)s;
    return ERR_OK;
}

enum err directive_parse(const struct fields *fields, const struct route_conf *route, struct arena *a,
                         struct directive *out, const char **why)
{
    *out = (struct directive){0};
    struct bytes routing = fields_get(fields, "x-routing"), cache = fields_get(fields, "x-cache");
    if (routing.p == NULL && cache.p == NULL)
        return ERR_OK;
    struct parse p = {.route = route, .arena = a, .out = out, .why = why};
    if (fields_count(fields, "x-routing") > 1 || fields_count(fields, "x-cache") > 1)
        return WHY(&p, "x-routing and x-cache may stand once each");
    enum err e = routing.p ? take_routing(&p, routing) : ERR_OK;
    return e == ERR_OK && cache.p ? take_cache(&p, cache) : e;
}
