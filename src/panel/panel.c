/* One thread, one loop, one listener. Answers are whole and small; a question to the ledger blocks this loop and no
 * other. */
#include "panel/panel.h"

#include "base/log.h"
#include "base/mem.h"
#include "http/server.h"
#include "net/acceptor.h"
#include "net/listen.h"
#include "panel/admin.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct panel {
    struct panel_options options;
    char *ledger_path;
    char listen[160];
    int fd;
    struct loop *loop;
    struct acceptor acceptor;
    struct server *server;
    struct admin *admin;
    pthread_t thread;
};

static void send_answer(struct inbound *in, const struct admin_answer *answer)
{
    char fields[256];
    int n = snprintf(fields, sizeof fields,
                     "Content-Type: %s\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s",
                     answer->content_type, answer->more);
    inbound_head(in, answer->status, INBOUND_LENGTH, answer->body.n, bytes_from(fields, (size_t)n));
    inbound_put(in, buf_bytes(&answer->body));
    inbound_end(in);
}

static void on_request(struct inbound *in, void *arg)
{
    struct panel *p = arg;
    struct admin_answer answer;
    admin_answer(p->admin, in->head, &answer);
    send_answer(in, &answer);
    buf_fini(&answer.body);
}

static unsigned on_head(struct inbound *in, void *arg)
{
    struct panel *p = arg;
    return admin_check(p->admin, in->head);
}

static void on_refused(struct inbound *in, unsigned status, const char *why, void *arg)
{
    struct admin_answer answer;
    admin_refusal(status, why, &answer);
    send_answer(in, &answer);
    buf_fini(&answer.body);
}

static void on_gone(struct inbound *in, bool is_stall, void *arg)
{
}

static void on_writable(struct inbound *in, void *arg)
{
}

static void on_stream(struct acceptor *a, struct stream *s)
{
    server_accept(RM_CONTAINER(a, struct panel, acceptor)->server, s);
}

static void *panel_main(void *arg)
{
    struct panel *p = arg;
    loop_run(p->loop);
    return NULL;
}

static enum err open_listener(struct panel *p, const struct panel_options *o, char *message, size_t cap)
{
    struct listen_address a;
    if (!listen_address_parse(bytes_of(o->listen), &a)) {
        snprintf(message, cap, "admin: '%s' is not host:port", o->listen);
        return ERR_SYNTAX;
    }
    if (!o->has_secret && !listen_address_is_loopback(&a)) {
        snprintf(message, cap, "admin: %s is not a loopback address, and that needs admin.secret_sha256", o->listen);
        return ERR_UNSUPPORTED;
    }
    enum err e = listen_open(&a, 1, &p->fd, message, cap);
    if (e != ERR_OK)
        return e;
    bool is_v6 = strchr(a.host, ':') != NULL;
    snprintf(p->listen, sizeof p->listen, is_v6 ? "[%s]:%u" : "%s:%u", a.host, a.port);
    return ERR_OK;
}

static const struct server_limits limits = {.head = {.bytes = 16384, .fields = 100},
                                            .body_bytes = 65536,
                                            .head_timeout_ms = 10000,
                                            .body_timeout_ms = 10000,
                                            .client_idle_ms = 75000,
                                            .client_stall_ms = 30000,
                                            .requests_per_connection = 10000,
                                            .connections = 256,
                                            .keeps_no_heads = true};
static const struct server_handler handler = {on_request, on_head, on_refused, on_gone, on_writable};

/* The loop without its thread; signals belong to another one. */
static enum err start_loop(struct panel *p, char *message, size_t cap)
{
    p->loop = loop_new();
    if (p->loop == NULL) {
        snprintf(message, cap, "the system grants no event loop: %s", strerror(errno));
        return ERR_IO;
    }
    p->server = server_new(p->loop, &limits, &handler, p);
    p->admin = admin_new(&p->options);
    p->acceptor.on_stream = on_stream;
    if (acceptor_open(&p->acceptor, p->loop, p->fd) != ERR_OK) {
        snprintf(message, cap, "admin: the listener cannot be watched");
        return ERR_IO;
    }
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&p->thread, NULL, panel_main, p);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        snprintf(message, cap, "admin: the thread cannot be started");
    return rc == 0 ? ERR_OK : ERR_IO;
}

/* On a thread of its own or after it: closes what is open, lets the loop reap, frees. */
static void release(struct panel *p)
{
    if (p->loop != NULL) {
        acceptor_close(&p->acceptor);
        server_close(p->server);
        for (int i = 0; i < 100 && server_n_conns(p->server) > 0; i++)
            loop_turn(p->loop, 0);
        loop_turn(p->loop, 0);
        server_free(p->server);
        admin_free(p->admin);
        loop_free(p->loop);
    }
    if (p->fd >= 0)
        close(p->fd);
    mem_free(p->ledger_path);
    mem_free(p);
}

enum err panel_start(const struct panel_options *o, struct panel **out, char *message, size_t message_cap)
{
    *out = NULL;
    struct panel *p = mem_zalloc(sizeof *p);
    p->fd = -1;
    p->options = *o;
    p->ledger_path = mem_dup(o->ledger_path != NULL ? o->ledger_path : "", o->ledger_path ? strlen(o->ledger_path) : 0);
    p->options.ledger_path = p->ledger_path;
    p->options.listen = p->listen;
    enum err e = open_listener(p, o, message, message_cap);
    if (e == ERR_OK)
        e = start_loop(p, message, message_cap);
    if (e != ERR_OK) {
        release(p);
        return e;
    }
    LOG(LOG_INFO, "panel", "-", "admin listener on %s", p->listen);
    *out = p;
    return ERR_OK;
}

const char *panel_listen(const struct panel *p)
{
    return p->listen;
}

void panel_stop(struct panel *p)
{
    if (p == NULL)
        return;
    loop_stop(p->loop);
    pthread_join(p->thread, NULL);
    release(p);
}
