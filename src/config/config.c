#include "config/config.h"

#include "base/mem.h"

struct config *config_ref(struct config *c)
{
    int before = atomic_fetch_add(&c->refs, 1);
    RM_ASSERT(before > 0);
    return c;
}

static void scrub(const char *p, size_t n)
{
    if (n > 0)
        explicit_bzero((void *)(uintptr_t)p, n); /* in our arena, which is about to go */
}

/* Header values are scrubbed as well: some providers take their credential there. */
static void scrub_secrets(struct config *c)
{
    for (size_t i = 0; i < c->n_providers; i++) {
        struct provider_conf *p = &c->providers[i];
        scrub(p->api_key.p, p->api_key.n);
        for (size_t k = 0; k < p->n_headers; k++)
            scrub(p->headers[k].value, strlen(p->headers[k].value));
    }
}

struct config *config_of_core(struct config *whole)
{
    struct config *c = mem_zalloc_lines(sizeof *c);
    RM_ASSERT(whole->whole == NULL);
    size_t from = offsetof(struct config, version); /* all but the memory and the count, which others move */
    memcpy((char *)c + from, (const char *)whole + from, sizeof *c - from);
    c->whole = config_ref(whole);
    atomic_store(&c->refs, 1);
    mem_count(MEM_CONFIG, 1);
    return c;
}

static void release_whole(struct config *c)
{
    if (c->on_free != NULL)
        c->on_free(c);
    scrub_secrets(c);
    arena_fini(&c->arena);
}

void config_unref(struct config *c)
{
    if (c == NULL)
        return;
    int before = atomic_fetch_sub(&c->refs, 1);
    RM_ASSERT(before > 0);
    if (before > 1)
        return;
    if (c->whole != NULL)
        config_unref(c->whole);
    else
        release_whole(c);
    mem_count(MEM_CONFIG, -1);
    mem_free(c);
}

const struct route_conf *config_route(const struct config *c, struct bytes model)
{
    for (size_t i = 0; i < c->n_routes; i++)
        if (bytes_is(model, c->routes[i].model))
            return &c->routes[i];
    return NULL;
}

const struct provider_conf *config_provider(const struct config *c, struct bytes name)
{
    for (size_t i = 0; i < c->n_providers; i++)
        if (bytes_is(name, c->providers[i].name))
            return &c->providers[i];
    return NULL;
}

/* ---- what a reload cannot change ---- */

enum { HASH_BYTES = sizeof((struct config *)0)->admin_secret_sha256 };
enum fixed_kind { FIXED_TEXT, FIXED_U32, FIXED_U64, FIXED_BOOL, FIXED_HASH };

struct fixed {
    const char *name;
    enum fixed_kind kind;
    size_t offset;
};

static const struct fixed fixed[] = {
    {"listen", FIXED_TEXT, offsetof(struct config, listen)},
    {"admin", FIXED_TEXT, offsetof(struct config, admin_listen)},
    {"admin.secret_sha256", FIXED_HASH, offsetof(struct config, admin_secret_sha256)},
    {"workers", FIXED_U32, offsetof(struct config, workers)},
    {"ledger", FIXED_TEXT, offsetof(struct config, ledger)},
    {"ledger_flush_ms", FIXED_U32, offsetof(struct config, ledger_flush_ms)},
    {"access_log", FIXED_TEXT, offsetof(struct config, access_log)},
    {"resolver", FIXED_BOOL, offsetof(struct config, resolver_is_system)},
    {"limits.memory", FIXED_U64, offsetof(struct config, limits.memory)},
    {"limits.connections", FIXED_U64, offsetof(struct config, limits.connections)},
    {"limits.ledger_queue_rows", FIXED_U64, offsetof(struct config, limits.ledger_queue_rows)},
};

static bool is_equal(const struct fixed *f, const struct config *a, const struct config *b)
{
    const void *x = (const char *)a + f->offset, *y = (const char *)b + f->offset;
    switch (f->kind) {
    case FIXED_TEXT:
        return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
    case FIXED_U32:
        return memcmp(x, y, sizeof(uint32_t)) == 0;
    case FIXED_U64:
        return memcmp(x, y, sizeof(uint64_t)) == 0;
    case FIXED_HASH:
        return memcmp(x, y, HASH_BYTES) == 0;
    default:
        return *(const bool *)x == *(const bool *)y;
    }
}

static void keep(const struct fixed *f, struct config *now, const struct config *old)
{
    void *to = (char *)now + f->offset;
    const void *from = (const char *)old + f->offset;
    switch (f->kind) {
    case FIXED_TEXT:
        *(const char **)to = arena_dup(&now->arena, bytes_of(*(const char *const *)from)).p;
        return;
    case FIXED_U32:
        memcpy(to, from, sizeof(uint32_t));
        return;
    case FIXED_U64:
        memcpy(to, from, sizeof(uint64_t));
        return;
    case FIXED_HASH:
        memcpy(to, from, HASH_BYTES);
        return;
    default:
        *(bool *)to = *(const bool *)from;
    }
}

void config_restart_diff(const struct config *old, const struct config *now, struct buf *out)
{
    bool is_first = true;
    for (size_t i = 0; i < RM_COUNTOF(fixed); i++) {
        if (is_equal(&fixed[i], old, now))
            continue;
        buf_printf(out, "%s%s", is_first ? "" : ", ", fixed[i].name);
        is_first = false;
    }
}

void config_restart_keep(struct config *now, const struct config *old)
{
    for (size_t i = 0; i < RM_COUNTOF(fixed); i++)
        keep(&fixed[i], now, old);
    now->has_admin_secret = old->has_admin_secret;
}
