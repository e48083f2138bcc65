#include "relay/caching.h"

#include "plan/affinity.h"

struct caching_try {
    struct caching_try *next;
    const struct link_conf *link;
    uint16_t n;
    enum cache_mark mark;
    const char *words;
};

/* ---- the order of links ---- */

static bool may_reorder(const struct caching *c, const struct directive *d)
{
    return c->route->n_links > 1 && d->order == NULL && !d->fallback_off && c->facts->state.n == 0;
}

static void move_to_front(const struct link_conf **links, size_t place)
{
    const struct link_conf *l = links[place];
    for (; place > 0; place--)
        links[place] = links[place - 1];
    links[0] = l;
}

static void choose_order(struct caching *c, const struct caching_start *s, struct directive *d)
{
    const struct cache_conf *conf = &c->route->cache;
    if ((conf->affinity == 0 && conf->goes_back == RETURN_AT_ONCE) || !may_reorder(c, d))
        return;
    const struct link_conf **links = ARENA_ARRAY(c->arena, const struct link_conf *, c->route->n_links);
    for (size_t i = 0; i < c->route->n_links; i++)
        links[i] = &c->route->links[i];
    if (conf->affinity != 0)
        affinity_order(s->key, links, c->route->n_links);
    struct cache_return_ask ask = {.call = c->facts,
                                   .links = links,
                                   .n_links = c->route->n_links,
                                   .ttl_s = c->ttl_s,
                                   .registry = s->registry,
                                   .now_us = s->now_us};
    if (conf->goes_back == RETURN_BY_VALUE)
        move_to_front(links, cache_stay(c->memory, &ask, c->words));
    d->order = links;
    d->n_order = c->route->n_links;
}

void caching_begin(struct caching *c, const struct caching_start *s, struct directive *d)
{
    *c = (struct caching){.memory = s->memory, .arena = s->arena, .facts = s->facts, .route = s->route};
    c->ttl_s = cache_wanted_s(s->facts, d->cache_ttl_s);
    if (c->ttl_s > 0 || c->route->cache.goes_back == RETURN_BY_VALUE)
        cache_see(c->memory, s->facts, c->ttl_s, s->now_us);
    choose_order(c, s, d);
}

/* ---- attempts ---- */

bool caching_withholds(struct caching *c, const struct link_conf *link, uint16_t n, const struct request_record *trail,
                       struct registry *registry, uint64_t now_us)
{
    struct cache_ask ask = {.call = c->facts,
                            .route = c->route,
                            .link = link,
                            .trail = trail,
                            .n = n,
                            .ttl_s = c->ttl_s,
                            .registry = registry,
                            .now_us = now_us};
    struct cache_verdict v = cache_judge(c->memory, &ask);
    struct caching_try *t = ARENA_NEW(c->arena, struct caching_try);
    const char *words = v.words[0] != '\0' ? v.words : c->tries == NULL ? c->words : "";
    *t = (struct caching_try){.next = c->tries, .link = link, .n = n};
    t->mark = v.is_withheld ? CACHE_WITHHELD : c->ttl_s > 0 ? CACHE_ASKED : CACHE_NOT_ASKED;
    t->words = words[0] != '\0' ? arena_dup(c->arena, bytes_of(words)).p : "";
    c->tries = t;
    return v.is_withheld;
}

void caching_commit(struct caching *c, uint16_t n, uint64_t now_us)
{
    for (struct caching_try *t = c->tries; t != NULL; t = t->next)
        if (t->n == n)
            cache_served(c->memory, c->facts, t->link, t->mark == CACHE_ASKED, c->ttl_s, now_us);
}

void caching_end(struct caching *c, struct relay *r, uint64_t now_us)
{
    const struct request_record *rec = relay_record(r);
    for (struct caching_try *t = c->tries; t != NULL; t = t->next) {
        for (uint16_t i = 0; i < rec->n_attempts; i++)
            if (rec->attempts[i].n == t->n)
                cache_learn(c->memory, c->facts, t->link, &rec->attempts[i], c->ttl_s, now_us);
        if (t->mark != CACHE_NOT_ASKED)
            relay_mark_cache(r, t->n, t->mark);
        if (t->words[0] != '\0')
            relay_note(r, t->n, t->words);
    }
}
