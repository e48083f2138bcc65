#include "plan/affinity.h"

/* Mixed so that every bit of the result hangs on every bit of both (the finalizer of SplitMix64). */
static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ (b * 0x9e3779b97f4a7c15ULL)) + 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* FNV-1a */
static uint64_t hash_text(uint64_t h, struct bytes text)
{
    for (size_t i = 0; i < text.n; i++)
        h = (h ^ (unsigned char)text.p[i]) * 0x100000001b3ULL;
    return h;
}

enum { BASIS_KEY = 1, BASIS_SESSION = 2 }; /* so that a key and a session of one text are two conversations */

uint64_t affinity_key(const struct call *call, struct bytes session_id)
{
    uint64_t key = call->talk_hash != 0 ? call->talk_hash : call->prefix_hash;
    if (call->cache_key.n > 0)
        key = hash_text(0xcbf29ce484222325ULL ^ BASIS_KEY, call->cache_key);
    else if (session_id.n > 0)
        key = hash_text(0xcbf29ce484222325ULL ^ BASIS_SESSION, session_id);
    else if (key == 0)
        return 0;
    return key != 0 ? key : 1;
}

/* By names, not by ids: another process draws the same. */
static uint64_t drawn(uint64_t key, const struct link_conf *l)
{
    uint64_t h = hash_text(0xcbf29ce484222325ULL, bytes_of(l->provider->name));
    return mixed(key, hash_text(h * 0x100000001b3ULL, bytes_of(l->model)));
}

static void order_run(uint64_t key, const struct link_conf **links, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const struct link_conf *l = links[i];
        size_t k = i;
        for (; k > 0 && drawn(key, links[k - 1]) < drawn(key, l); k--)
            links[k] = links[k - 1];
        links[k] = l;
    }
}

void affinity_order(uint64_t key, const struct link_conf **links, size_t n_links)
{
    size_t from = 0;
    for (size_t i = 1; key != 0 && i <= n_links; i++) {
        if (i < n_links && links[i]->equals == links[from]->equals)
            continue;
        order_run(key, links + from, i - from);
        from = i;
    }
}
