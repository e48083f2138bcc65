/* One core's provider side: the pool, and the door to it. Exchanges are in exchange.c. */
#include "upstream/upstream_impl.h"

#include "base/mem.h"

struct upstream *upstream_new(struct loop *l, struct resolver *r)
{
    struct upstream *u = mem_zalloc_lines(sizeof *u);
    u->loop = l;
    u->resolver = r;
    pool_init(&u->pool, l, r);
    return u;
}

void upstream_free(struct upstream *u)
{
    if (u == NULL)
        return;
    pool_fini(&u->pool);
    mem_free(u);
}

void upstream_warm(struct upstream *u, const struct provider_conf *p)
{
    if (!p->is_off)
        pool_warm(&u->pool, p);
}

size_t upstream_n_idle(const struct upstream *u)
{
    return u->pool.n_idle;
}

void upstream_prune(struct upstream *u, const struct config *now)
{
    pool_prune(&u->pool, now);
}

void upstream_rest(struct upstream *u)
{
    readbufs_rest(u->pool.reads);
}
