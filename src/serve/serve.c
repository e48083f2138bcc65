/* Threads: the caller's own (signals, reload, stop), one per worker, one of the ledger. Orders go to workers by mail;
 * figures come back as atomics that only their worker writes. */
#include "serve/gateway.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/listen.h"
#include "serve/descriptors.h"
#include "serve/keep.h"
#include "serve/snapshot.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 64, DRAIN_STEP_MS = 20 };

struct gateway {
    struct gateway_options options;
    pthread_mutex_t config_lock; /* the admin thread reads `config` too */
    struct config *config;
    struct registry *registry;
    struct latency *latency;
    struct ratio_book *ratios;
    struct ledger *ledger;
    struct worker *workers[WORKERS_MAX];
    pthread_t threads[WORKERS_MAX];
    int fds[WORKERS_MAX];
    unsigned n_workers;
    uint64_t connections_max; /* clients at once: what the descriptors carry */
    char listen[160];
};

/* False: a start makes no sense. */
static bool find_descriptors(struct gateway *g, char *message, size_t cap)
{
    struct descriptors d = descriptors_of(g->config, descriptors_raise(), descriptors_open());
    g->connections_max = d.connections;
    if (!descriptors_are_short(&d))
        return true;
    descriptors_tell(&d, g->config, message, cap);
    if (descriptors_can_start(&d))
        LOG(LOG_WARN, "serve", "-", "%s", message);
    return descriptors_can_start(&d);
}

static enum err open_listeners(struct gateway *g, char *message, size_t cap)
{
    struct listen_address a;
    if (!listen_address_parse(bytes_of(g->config->listen), &a)) {
        snprintf(message, cap, "listen: '%s' is not an address", g->config->listen);
        return ERR_SYNTAX;
    }
    enum err e = listen_open(&a, (int)g->n_workers, g->fds, message, cap);
    if (e == ERR_OK)
        snprintf(g->listen, sizeof g->listen, strchr(a.host, ':') ? "[%s]:%u" : "%s:%u", a.host, a.port);
    return e;
}

static enum err open_ledger(struct gateway *g, char *message, size_t cap)
{
    struct ledger_options o = {.path = g->config->ledger,
                               .access_log = g->config->access_log,
                               .flush_ms = g->config->ledger_flush_ms,
                               .queue_rows = (uint32_t)g->config->limits.ledger_queue_rows,
                               .n_rings = g->n_workers};
    return ledger_open(&o, &g->ledger, message, cap);
}

static void *run_worker(void *arg)
{
    worker_run(arg);
    return NULL;
}

static struct kept kept_of(const struct gateway *g)
{
    return (struct kept){.registry = g->registry,
                         .latency = g->latency,
                         .ratios = g->ratios,
                         .now_us = loop_clock_us(),
                         .wall_ms = loop_wall_ms(g->workers[0]->loop)};
}

/* None of the workers runs: what they keep for themselves goes with the rest. */
static void keep_at_rest(struct gateway *g, void (*keep)(const struct kept *k, const char *ledger_path))
{
    struct cache_memory *caches[WORKERS_MAX];
    struct kept kept = kept_of(g);
    for (kept.n_caches = 0; kept.n_caches < g->n_workers; kept.n_caches++)
        caches[kept.n_caches] = g->workers[kept.n_caches]->caches;
    kept.caches = caches;
    keep(&kept, g->config->ledger);
}

static void save(const struct kept *k, const char *ledger_path)
{
    (void)keep_save(k, ledger_path);
}

/* Those that could be made; false = not all, and nothing runs yet. */
static bool make_workers(struct gateway *g)
{
    uint64_t seed = g->options.seed;
    if (seed == 0 && getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = 1;
    for (unsigned i = 0; i < g->n_workers; i++) {
        struct worker_options o = {.core = i,
                                   .listen_fd = g->fds[i],
                                   .connections_max = g->connections_max,
                                   .config = g->config,
                                   .registry = g->registry,
                                   .latency = g->latency,
                                   .ratios = g->ratios,
                                   .ledger = g->ledger,
                                   .seed = seed + i * 0x9e3779b97f4a7c15ULL};
        g->workers[i] = worker_new(&o);
        if (g->workers[i] == NULL)
            return false;
    }
    return true;
}

static void start_workers(struct gateway *g)
{
    keep_at_rest(g, keep_load);
    for (unsigned i = 0; i < g->n_workers; i++)
        RM_ASSERT(pthread_create(&g->threads[i], NULL, run_worker, g->workers[i]) == 0);
}

static void release(struct gateway *g)
{
    for (unsigned i = 0; i < g->n_workers; i++)
        worker_free(g->workers[i]);
    for (unsigned i = 0; i < g->n_workers; i++)
        if (g->fds[i] >= 0)
            close(g->fds[i]);
    if (g->ledger != NULL)
        ledger_close(g->ledger);
    config_unref(g->config);
    latency_free(g->latency);
    ratio_book_free(g->ratios);
    registry_free(g->registry);
    pthread_mutex_destroy(&g->config_lock);
    mem_free(g);
}

static void tell_providers_off(const struct config *c)
{
    for (size_t i = 0; i < c->n_providers; i++)
        if (c->providers[i].is_off)
            LOG(LOG_WARN, "serve", "-", "provider %s is off: %s is empty", c->providers[i].name,
                c->providers[i].off_variable ? c->providers[i].off_variable : "its key");
}

enum err gateway_start(const struct gateway_options *o, struct gateway **out, char *message, size_t message_cap)
{
    struct gateway *g = mem_zalloc(sizeof *g);
    g->options = *o;
    pthread_mutex_init(&g->config_lock, NULL);
    g->config = config_ref(o->config);
    g->registry = registry_new();
    g->n_workers = g->config->workers < WORKERS_MAX ? g->config->workers : WORKERS_MAX;
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        g->fds[i] = -1;
    g->latency = latency_new(g->n_workers);
    g->ratios = ratio_book_new(g->n_workers);
    enum err e = find_descriptors(g, message, message_cap) ? ERR_OK : ERR_LIMIT;
    if (e == ERR_OK)
        e = snapshot_prepare(g->config, g->registry, message, message_cap);
    if (e == ERR_OK)
        e = open_listeners(g, message, message_cap);
    if (e == ERR_OK)
        e = open_ledger(g, message, message_cap);
    if (e == ERR_OK && !make_workers(g)) {
        snprintf(message, message_cap, "the system grants no event loop (epoll, eventfd): %s", strerror(errno));
        e = ERR_IO;
    }
    if (e != ERR_OK) {
        release(g);
        return e;
    }
    tell_providers_off(g->config);
    start_workers(g);
    *out = g;
    return ERR_OK;
}

/* `now` takes over what needs a restart. False = the two together must not be: the listener stays where it is, so the
 * keys that let it stand there must stay as well. */
static bool merge(const struct config *old, struct config *now, char *message, size_t cap)
{
    struct listen_address a;
    struct buf differs = {0};
    config_restart_diff(old, now, &differs);
    if (differs.n > 0)
        LOG(LOG_WARN, "serve", "-", "reload: these keep their old value until a restart: %s", buf_cstr(&differs));
    buf_fini(&differs);
    config_restart_keep(now, old);
    bool is_safe =
        now->n_keys > 0 || (listen_address_parse(bytes_of(now->listen), &a) && listen_address_is_loopback(&a));
    if (!is_safe)
        snprintf(message, cap, "until a restart the listener stays on %s, which needs client_keys", now->listen);
    return is_safe;
}

void gateway_reload(struct gateway *g)
{
    struct config *now = NULL;
    char message[256];
    if (g->ledger != NULL)
        ledger_reopen_log(g->ledger);
    if (g->options.reload == NULL || g->options.reload(g->options.arg, &now) != ERR_OK) {
        LOG(LOG_ERROR, "serve", "-", "reload: the config has faults; nothing was changed");
        return;
    }
    if (!merge(g->config, now, message, sizeof message) ||
        snapshot_prepare(now, g->registry, message, sizeof message) != ERR_OK) {
        LOG(LOG_ERROR, "serve", "-", "reload: %s; nothing was changed", message);
        config_unref(now);
        return;
    }
    for (unsigned i = 0; i < g->n_workers; i++)
        worker_reload(g->workers[i], now);
    pthread_mutex_lock(&g->config_lock);
    config_unref(g->config);
    g->config = now;
    pthread_mutex_unlock(&g->config_lock);
    tell_providers_off(now);
    LOG(LOG_INFO, "serve", "-", "reload: config version %llu is in force", (unsigned long long)now->version);
}

static uint64_t in_flight(const struct gateway *g)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < g->n_workers; i++)
        n += worker_in_flight(g->workers[i]);
    return n;
}

void gateway_keep(struct gateway *g)
{
    struct kept kept = kept_of(g);
    (void)keep_save(&kept, g->config->ledger);
    for (unsigned i = 0; in_flight(g) == 0 && i < g->n_workers; i++)
        worker_rest(g->workers[i]);
}

static bool is_drained(const struct gateway *g)
{
    for (unsigned i = 0; i < g->n_workers; i++)
        if (!worker_is_drained(g->workers[i]))
            return false;
    return true;
}

static void wait_for_flights(const struct gateway *g, bool (*is_urgent)(void))
{
    static const struct timespec step = {.tv_nsec = DRAIN_STEP_MS * 1000000L};
    for (uint32_t ms = 0; ms < g->config->drain_timeout_ms; ms += DRAIN_STEP_MS) {
        if (is_drained(g) || (is_urgent != NULL && is_urgent()))
            return;
        nanosleep(&step, NULL);
    }
}

void gateway_stop(struct gateway *g, bool (*is_urgent)(void))
{
    _Atomic unsigned n_cut = 0;
    LOG(LOG_INFO, "serve", "-", "stopping: %llu requests in flight, drain_timeout %u ms",
        (unsigned long long)in_flight(g), g->config->drain_timeout_ms);
    for (unsigned i = 0; i < g->n_workers; i++)
        worker_drain(g->workers[i]);
    wait_for_flights(g, is_urgent);
    for (unsigned i = 0; i < g->n_workers; i++)
        worker_cut(g->workers[i], &n_cut);
    for (unsigned i = 0; i < g->n_workers; i++)
        pthread_join(g->threads[i], NULL);
    keep_at_rest(g, save);
    unsigned cut = atomic_load(&n_cut);
    if (cut > 0)
        LOG(LOG_WARN, "serve", "-", "stopped: %u requests were cut (outcome drained)", cut);
    else
        LOG(LOG_INFO, "serve", "-", "stopped: nothing was cut");
    release(g);
}

const char *gateway_listen(const struct gateway *g)
{
    return g->listen;
}

const char *gateway_ledger_path(const struct gateway *g)
{
    return g->config->ledger;
}

struct config *gateway_config(struct gateway *g)
{
    pthread_mutex_lock(&g->config_lock);
    struct config *c = config_ref(g->config);
    pthread_mutex_unlock(&g->config_lock);
    return c;
}

struct registry *gateway_registry(struct gateway *g)
{
    return g->registry;
}

struct latency *gateway_latency(struct gateway *g)
{
    return g->latency;
}

struct ratio_book *gateway_ratios(struct gateway *g)
{
    return g->ratios;
}

struct ledger *gateway_ledger(struct gateway *g)
{
    return g->ledger;
}

unsigned gateway_n_workers(const struct gateway *g)
{
    return g->n_workers;
}

const struct worker *gateway_worker(const struct gateway *g, unsigned i)
{
    return g->workers[i];
}
