#include "cmd/bench.h"

#include "base/mem.h"
#include "codec/json_tree.h"

#include <pthread.h>
#include <signal.h>

enum { CALL_TIMEOUT_US = 1000000, NAP_MS = 10 };

struct bench_watch {
    pthread_t thread;
    _Atomic bool is_over;
    uint16_t port;
    const char *route;
    unsigned every_ms;
    uint64_t began_us;
    struct outage *outage;
};

static void mark_links(struct bench_watch *w, yyjson_val *links, uint32_t at_ms)
{
    size_t i, n;
    yyjson_val *link;
    yyjson_arr_foreach(links, i, n, link)
        outage_mark(w->outage, at_ms, json_tree_str(link, "provider"), json_tree_str(link, "breaker"));
}

static void mark_route(struct bench_watch *w, yyjson_val *routes, uint32_t at_ms)
{
    size_t i, n;
    yyjson_val *route;
    yyjson_arr_foreach(routes, i, n, route)
    {
        if (bytes_is(json_tree_str(route, "model"), w->route))
            mark_links(w, yyjson_obj_get(route, "links"), at_ms);
    }
}

static void look(struct bench_watch *w, struct caller *c)
{
    struct arena a = {0};
    struct caller_answer answer;
    const char *why;
    struct caller_ask ask = {
        .host = "127.0.0.1", .port = w->port, .method = "GET", .path = "/api/health", .timeout_us = CALL_TIMEOUT_US};
    yyjson_val *root = NULL;
    uint32_t at_ms = (uint32_t)((loop_clock_us() - w->began_us) / 1000);
    if (caller_do(c, &ask, &a, &answer, &why) == ERR_OK && answer.status == 200 &&
        json_tree_parse(answer.body, 64, &a, &root) == ERR_OK)
        mark_route(w, yyjson_obj_get(root, "routes"), at_ms);
    arena_fini(&a);
}

static void *watch_main(void *arg)
{
    struct bench_watch *w = arg;
    struct caller *c = caller_new();
    while (!w->is_over) {
        look(w, c);
        for (unsigned ms = 0; ms < w->every_ms && !w->is_over; ms += NAP_MS)
            child_nap();
    }
    caller_free(c);
    return NULL;
}

struct bench_watch *bench_watch_start(uint16_t admin_port, const char *route, unsigned every_ms, uint64_t began_us,
                                      struct outage *o)
{
    struct bench_watch *w = mem_zalloc(sizeof *w);
    *w = (struct bench_watch){
        .port = admin_port, .route = route, .every_ms = every_ms, .began_us = began_us, .outage = o};
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&w->thread, NULL, watch_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        return w;
    mem_free(w);
    return NULL;
}

void bench_watch_stop(struct bench_watch *w)
{
    if (w == NULL)
        return;
    w->is_over = true;
    pthread_join(w->thread, NULL);
    mem_free(w);
}
