#include "relay/caching.h"

#include "plan/affinity.h"
#include "relay/inside.h"

struct caching_words {
    struct caching_words *next;
    uint16_t n; /* the attempt; 0 = the first, whichever it is */
    const char *words;
};

static void tell(struct caching *c, struct arena *arena, uint16_t n, const char *words)
{
    if (words[0] == '\0')
        return;
    struct caching_words *t = ARENA_NEW(arena, struct caching_words);
    *t = (struct caching_words){c->told, n, arena_dup(arena, bytes_of(words)).p};
    c->told = t;
}

/* ---- the order of links ---- */

static bool may_reorder(const struct caching_start *s, const struct directive *d)
{
    return s->route->n_links > 1 && d->order == NULL && !d->fallback_off && s->facts->state.n == 0;
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
    const struct cache_conf *conf = &s->route->cache;
    if ((conf->affinity == 0 && conf->goes_back == RETURN_AT_ONCE) || !may_reorder(s, d))
        return;
    const struct link_conf **links = ARENA_ARRAY(s->arena, const struct link_conf *, s->route->n_links);
    for (size_t i = 0; i < s->route->n_links; i++)
        links[i] = &s->route->links[i];
    if (conf->affinity != 0)
        affinity_order(s->key, links, s->route->n_links);
    struct cache_return_ask ask = {.call = s->facts,
                                   .links = links,
                                   .n_links = s->route->n_links,
                                   .ttl_s = c->ttl_s,
                                   .registry = s->registry,
                                   .now_us = s->now_us};
    if (conf->goes_back == RETURN_BY_VALUE) {
        char why[CACHE_WORDS];
        move_to_front(links, cache_stay(c->memory, &ask, why));
        tell(c, s->arena, 0, why);
    }
    d->order = links;
    d->n_order = (uint16_t)s->route->n_links;
}

void caching_begin(struct caching *c, const struct caching_start *s, struct directive *d)
{
    *c = (struct caching){.memory = s->memory};
    c->ttl_s = cache_wanted_s(s->facts, d->cache_ttl_s);
    if (c->ttl_s > 0 || s->route->cache.goes_back == RETURN_BY_VALUE)
        cache_see(c->memory, s->facts, c->ttl_s, s->now_us);
    choose_order(c, s, d);
}

/* ---- attempts ---- */

/* Why it is asked first goes to the first attempt, unless there is more to say of that. */
static void settle_order_words(struct caching *c, uint16_t n, bool is_wanted)
{
    if (c->told == NULL || c->told->n != 0)
        return;
    if (is_wanted)
        c->told->n = n;
    else
        c->told = NULL;
}

static struct cache_verdict judge(struct caching *c, struct relay *r, const struct link_conf *link, uint16_t n,
                                  struct registry *registry, uint64_t now_us)
{
    struct cache_ask ask = {.call = r->call,
                            .route = r->route,
                            .link = link,
                            .trail = relay_record(r),
                            .n = n,
                            .ttl_s = c->ttl_s,
                            .registry = registry,
                            .now_us = now_us};
    return cache_judge(c->memory, &ask);
}

bool caching_judge(struct caching *c, struct relay *r, const struct link_conf *link, uint16_t n,
                   struct registry *registry, uint64_t now_us)
{
    struct cache_verdict v;
    v.is_withheld = false;
    v.words[0] = '\0';
    if (n > 1)
        v = judge(c, r, link, n, registry, now_us);
    if (v.is_withheld || c->ttl_s > 0)
        relay_mark_cache(r, n, v.is_withheld ? CACHE_WITHHELD : CACHE_ASKED);
    settle_order_words(c, n, v.words[0] == '\0');
    tell(c, r->arena, n, v.words);
    return v.is_withheld;
}

void caching_note_commit(struct caching *c, const struct relay *r, uint16_t n, uint64_t now_us)
{
    const struct attempt_record *a = trail_entry(r, n);
    cache_served(c->memory, r->call, &r->route->links[a->link], a->cache_mark == CACHE_ASKED, c->ttl_s, now_us);
}

static void learn(struct caching *c, const struct relay *r, uint64_t now_us)
{
    const struct request_record *rec = relay_record(r);
    struct call room;
    const struct call *call = relay_call(r, &room);
    for (uint16_t i = rec->n_attempts; i-- > 0;)
        if (rec->attempts[i].tokens_from == TOKENS_REPORTED)
            cache_learn(c->memory, call, &r->route->links[rec->attempts[i].link], &rec->attempts[i], c->ttl_s, now_us);
}

void caching_note_end(struct caching *c, struct relay *r, uint64_t now_us)
{
    learn(c, r, now_us);
    for (const struct caching_words *t = c->told; t != NULL; t = t->next)
        if (t->n != 0) /* else it was for the first attempt, and there was none */
            relay_note(r, t->n, t->words);
}
