/* One open table for all targets, keyed by a hash of target, kind of name and name; an entry is never taken out, since
 * there are no more of them than three a request. */
#include "sim/larder.h"

#include "base/check.h"
#include "base/mem.h"

#include <stddef.h>

enum { CAP_AT_FIRST = 1024, BLOCK_TOKENS = 128, LEAST_TOKENS = 1024 };
enum name_kind { NAME_HEAD, NAME_TALK, NAME_MARKED, NAMES };

struct entry {
    uint64_t key; /* 0 = free */
    uint64_t until_us;
    int64_t n_tokens;
};
struct larder {
    struct entry *v;
    size_t n, cap; /* cap: a power of two */
};

struct larder *larder_new(void)
{
    struct larder *l = mem_zalloc(sizeof *l);
    l->cap = CAP_AT_FIRST;
    l->v = mem_zalloc(l->cap * sizeof *l->v);
    return l;
}

void larder_free(struct larder *l)
{
    if (l == NULL)
        return;
    mem_free(l->v);
    mem_free(l);
}

/* ---- the table ---- */

static uint64_t key_of(uint16_t target, enum name_kind kind, uint64_t hash)
{
    uint64_t h = (hash ^ ((uint64_t)target << 8 | (uint64_t)kind)) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 32;
    return h != 0 ? h : 1;
}

static struct entry *place_of(struct entry *v, size_t cap, uint64_t key)
{
    size_t i = key & (cap - 1);
    while (v[i].key != 0 && v[i].key != key)
        i = (i + 1) & (cap - 1);
    return &v[i];
}

static void grow(struct larder *l)
{
    size_t cap = 2 * l->cap;
    struct entry *v = mem_zalloc(cap * sizeof *v);
    for (size_t i = 0; i < l->cap; i++)
        if (l->v[i].key != 0)
            *place_of(v, cap, l->v[i].key) = l->v[i];
    mem_free(l->v);
    l->v = v;
    l->cap = cap;
}

static struct entry *take(struct larder *l, uint64_t key)
{
    if (2 * l->n >= l->cap)
        grow(l);
    struct entry *e = place_of(l->v, l->cap, key);
    if (e->key == 0) {
        e->key = key;
        l->n++;
    }
    return e;
}

/* ---- prompts ---- */

static bool is_played(const struct larder_prompt *p)
{
    return p->n_held > 0 && (p->way == LARDER_AUTOMATIC || (p->way == LARDER_ASKED && p->is_marked));
}

struct named {
    uint64_t hash;
    int64_t n_tokens;
};
static void names_of(const struct larder_prompt *p, struct named out[NAMES])
{
    int64_t n_head = p->n_head < p->n_held ? p->n_head : p->n_held;
    out[NAME_HEAD] = (struct named){n_head > 0 ? p->head_hash : 0, n_head};
    out[NAME_TALK] = (struct named){p->talk_hash, p->n_held};
    out[NAME_MARKED] = (struct named){p->way == LARDER_ASKED ? p->cache_hash : 0, p->n_held};
}

/* An automatic cache reads whole blocks, and none of a short prompt. */
static int64_t in_blocks(int64_t n)
{
    return n < LEAST_TOKENS ? 0 : n - n % BLOCK_TOKENS;
}

struct larder_use larder_look(struct larder *l, const struct larder_prompt *p, uint64_t now_us)
{
    struct larder_use use = {0, 0};
    struct named names[NAMES];
    struct entry *hit = NULL;
    if (!is_played(p))
        return use;
    names_of(p, names);
    for (int k = 0; k < NAMES; k++) {
        if (names[k].hash == 0)
            continue;
        struct entry *e = place_of(l->v, l->cap, key_of(p->target, (enum name_kind)k, names[k].hash));
        int64_t n = e->n_tokens < names[k].n_tokens ? e->n_tokens : names[k].n_tokens;
        if (e->key == 0 || e->until_us <= now_us || n <= use.n_read)
            continue;
        use.n_read = n;
        hit = e;
    }
    if (hit != NULL && hit->until_us < now_us + p->ttl_us)
        hit->until_us = now_us + p->ttl_us;
    if (p->way == LARDER_AUTOMATIC)
        use.n_read = in_blocks(use.n_read);
    else
        use.n_written = p->n_held - use.n_read;
    return use;
}

void larder_keep(struct larder *l, const struct larder_prompt *p, uint64_t now_us)
{
    struct named names[NAMES];
    if (!is_played(p))
        return;
    names_of(p, names);
    for (int k = 0; k < NAMES; k++) {
        if (names[k].hash == 0)
            continue;
        struct entry *e = take(l, key_of(p->target, (enum name_kind)k, names[k].hash));
        if (e->until_us <= now_us || e->n_tokens < names[k].n_tokens)
            e->n_tokens = names[k].n_tokens;
        if (e->until_us < now_us + p->ttl_us)
            e->until_us = now_us + p->ttl_us;
    }
}
