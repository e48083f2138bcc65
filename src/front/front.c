/* What comes in on the client listener. A request is judged twice:
 *
 *     by its head   path -> method -> key        before the body is read: nobody uploads 30 MB to hear 401
 *     whole         body -> facts -> route       then it goes up as a client_call
 *
 * A refusal is kept in the visit and written when the driver asks for it (on_refused), so there is one place that
 * answers, whoever refuses. A visit holds nothing but its arena until its body is whole: the driver may drop it
 * silently before that. From then on it holds one reference to the config. */
#include "front/front.h"

#include "base/mem.h"
#include "base/text.h"
#include "codec/json_write.h"
#include "front/front_impl.h"
#include "front/keys.h"
#include "front/refusal.h"
#include "front/reply.h"
#include "front/traceparent.h"

/* ---- visits ---- */

static struct visit *visit_new(struct front *f, struct inbound *in)
{
    enum { NAME_BYTES = 32 /* a client key's, as they are long */ };
    const struct dialect *asked = dialect_by_path(in->head->path);
    arena_reserve(&in->arena, sizeof(struct visit) + NAME_BYTES);
    struct visit *v = arena_alloc_raw(&in->arena, sizeof *v);
    *v = (struct visit){.front = f,
                        .endpoint = asked != NULL ? ENDPOINT_CALL : ENDPOINT_NONE,
                        .call = {.inbound = in,
                                 .arena = &in->arena,
                                 .dialect = asked != NULL ? asked : dialect_of_errors(in->head->path),
                                 .key = "",
                                 .id = f->handler.new_id(f->arg),
                                 .trace_id = ""}};
    text_id(v->call.id, v->call.id_text);
    in->owner = v;
    return v;
}

void visit_end(struct visit *v)
{
    struct config *config = v->call.config;
    v->call.config = NULL;
    v->call.inbound->owner = NULL;
    inbound_end(v->call.inbound);
    if (config != NULL)
        config_unref(config);
}

void visit_answer_json(struct visit *v, unsigned status, struct bytes body, struct bytes fields)
{
    struct reply_facts facts = {.id_text = v->call.id_text};
    reply_whole(&v->call, status, &facts, fields, body);
}

/* ---- by the head ---- */

/* Of a path that asks for no model. */
static enum endpoint endpoint_of(struct bytes path)
{
    if (bytes_is(path, "/v1/models"))
        return ENDPOINT_MODELS;
    if (bytes_is(path, "/healthz"))
        return ENDPOINT_HEALTHZ;
    return bytes_is(path, "/readyz") ? ENDPOINT_READYZ : ENDPOINT_NONE;
}

static bool method_fits(enum endpoint e, struct bytes method)
{
    if (e == ENDPOINT_CALL)
        return bytes_is(method, "POST");
    return bytes_is(method, "GET") || bytes_is(method, "HEAD");
}

static bool needs_key(enum endpoint e)
{
    return e == ENDPOINT_CALL || e == ENDPOINT_MODELS;
}

/* The name of the head's key, or NULL; looked up once for heads that are the same (a new snapshot looks anew). */
static const char *key_name(struct visit *v, const struct fields *fields)
{
    const struct config *c = v->front->handler.config(v->front->arg);
    struct head_memo *memo = inbound_memo(v->call.inbound);
    const char *name = "";
    if (memo != NULL && memo->fact != NULL && memo->version == c->version)
        return memo->fact;
    if (!keys_check(v->front->hasher, c, fields, &name))
        return NULL;
    if (memo != NULL)
        *memo = (struct head_memo){c->version, name};
    return name;
}

static unsigned check_key(struct visit *v, const struct fields *fields)
{
    const char *name = key_name(v, fields);
    if (name == NULL)
        return refusal_key(v, fields_has(fields, "authorization") || fields_has(fields, "x-api-key"));
    /* the snapshot may change while the body is read */
    v->call.key = arena_dup(v->call.arena, bytes_of(name)).p;
    return 0;
}

static unsigned on_head(struct inbound *in, void *arg)
{
    struct visit *v = visit_new(arg, in);
    const struct head *h = in->head;
    if (v->endpoint != ENDPOINT_CALL)
        v->endpoint = endpoint_of(h->path);
    if (v->endpoint == ENDPOINT_MODELS && fields_has(&h->fields, "anthropic-version"))
        v->call.dialect = dialect_by_name(BYTES("anthropic"));
    if (v->endpoint == ENDPOINT_NONE)
        return refusal_not_found(v, h->method, h->path);
    if (!method_fits(v->endpoint, h->method))
        return refusal_method(v, h->method, v->endpoint == ENDPOINT_CALL ? "POST" : "GET, HEAD");
    return needs_key(v->endpoint) ? check_key(v, &h->fields) : 0;
}

static void on_refused(struct inbound *in, unsigned status, const char *why, void *arg)
{
    struct visit *v = in->owner != NULL ? in->owner : visit_new(arg, in);
    if (v->refusal == NULL)
        refusal_by_driver(v, status, why);
    refusal_answer(v);
}

/* ---- whole ---- */

static void read_trace(struct visit *v)
{
    const struct fields *fields = &v->call.inbound->head->fields;
    struct bytes value = fields_get(fields, "traceparent"), trace_id;
    if (fields_count(fields, "traceparent") != 1 || !traceparent_parse(value, &trace_id))
        return;
    v->call.trace_id = arena_dup(v->call.arena, trace_id).p;
}

static void start_call(struct visit *v)
{
    struct client_call *c = &v->call;
    const char *why = "the body cannot be read";
    struct arena *arena = &c->inbound->asked_arena;
    struct call *call = arena_alloc_raw(arena, sizeof *call);
    read_trace(v);
    enum err e =
        dialect_read_call(c->dialect, c->inbound->body, (unsigned)c->config->limits.json_depth, arena, call, &why);
    if (e != ERR_OK) {
        refusal_body(v, why);
        refusal_answer(v);
        return;
    }
    c->call = call;
    c->is_stream = call->is_stream;
    c->route = config_route(c->config, call->model);
    if (c->route == NULL) {
        refusal_model(v, c->config);
        refusal_answer(v);
        return;
    }
    v->front->handler.on_call(c, v->front->arg);
}

struct bytes call_traceparent(const struct client_call *c)
{
    bool has_one = c->trace_id[0] != '\0';
    return has_one ? fields_get(&c->inbound->head->fields, "traceparent") : (struct bytes){0};
}

void call_let_go_of_request(struct client_call *c)
{
    c->call = NULL;
    inbound_drop_request(c->inbound);
}

static void answer_models(struct visit *v)
{
    struct buf body = {0};
    if (bytes_is(bytes_of(v->call.dialect->name), "anthropic"))
        models_anthropic(v->call.config, &body);
    else
        models_openai(v->call.config, &body);
    visit_answer_json(v, 200, buf_bytes(&body), BYTES("cache-control: no-cache\r\n"));
    buf_fini(&body);
}

static void put_status(struct buf *body, const char *status)
{
    struct json_writer w;
    jw_init(&w, body);
    jw_object(&w);
    jw_key(&w, "status");
    jw_cstr(&w, status);
    jw_end(&w);
}

/* Alive answers 200 as long as the process can answer at all; ready says whether new work should come here. */
static void answer_health(struct visit *v)
{
    struct front_ready ready = {0};
    struct buf body = {0};
    unsigned status = 200;
    if (v->endpoint == ENDPOINT_READYZ && v->front->handler.ready != NULL) {
        v->front->handler.ready(&ready, v->call.arena, v->front->arg);
        status = ready.is_draining ? 503 : 200;
    }
    if (v->endpoint == ENDPOINT_HEALTHZ)
        put_status(&body, "ok");
    else if (ready.text != NULL)
        buf_puts(&body, ready.text);
    else
        put_status(&body, ready.is_draining ? "draining" : ready.is_degraded ? "degraded" : "ready");
    visit_answer_json(v, status, buf_bytes(&body), BYTES("cache-control: no-store\r\n"));
    buf_fini(&body);
}

static void on_request(struct inbound *in, void *arg)
{
    struct front *f = arg;
    struct visit *v = in->owner;
    v->call.config = config_ref(f->handler.config(f->arg));
    if (v->endpoint == ENDPOINT_CALL)
        start_call(v);
    else if (v->endpoint == ENDPOINT_MODELS)
        answer_models(v);
    else
        answer_health(v);
}

static void on_gone(struct inbound *in, bool is_stall, void *arg)
{
    struct front *f = arg;
    struct visit *v = in->owner;
    if (v == NULL)
        return;
    struct config *config = v->call.config;
    f->handler.on_gone(&v->call, is_stall, f->arg);
    if (config != NULL)
        config_unref(config);
}

static void on_writable(struct inbound *in, void *arg)
{
    struct front *f = arg;
    struct visit *v = in->owner;
    if (v != NULL)
        f->handler.on_writable(&v->call, f->arg);
}

/* ---- life ---- */

struct front *front_new(struct loop *l, const struct server_limits *limits, const struct front_handler *h, void *arg)
{
    static const struct server_handler handler = {.on_request = on_request,
                                                  .on_head = on_head,
                                                  .on_refused = on_refused,
                                                  .on_gone = on_gone,
                                                  .on_writable = on_writable};
    struct front *f = mem_zalloc_lines(sizeof *f);
    f->loop = l;
    f->handler = *h;
    f->arg = arg;
    f->hasher = key_hasher_new();
    f->server = server_new(l, limits, &handler, f);
    return f;
}

void front_accept(struct front *f, struct stream *s)
{
    server_accept(f->server, s);
}

void front_set_limits(struct front *f, const struct server_limits *limits)
{
    server_set_limits(f->server, limits);
}

void front_drain(struct front *f)
{
    server_drain(f->server);
}

void front_rest(struct front *f)
{
    server_rest(f->server);
}

void front_close(struct front *f)
{
    server_close(f->server);
}

void front_free(struct front *f)
{
    if (f == NULL)
        return;
    server_free(f->server);
    key_hasher_free(f->hasher);
    mem_free(f);
}

size_t front_n_conns(const struct front *f)
{
    return server_n_conns(f->server);
}
