#include "codec/json_write.h"
#include "lab/mock_impl.h"
#include "lab/mock_order.h"

static void answer(const struct mock_request *q, unsigned status, const struct buf *json)
{
    script_json(status, buf_bytes(json), q->arena, q->script);
}

void mock_control_message(const struct mock_request *q, unsigned status, const char *name, const char *message)
{
    struct buf json = {0};
    struct json_writer w;
    jw_init(&w, &json);
    jw_object(&w);
    jw_key(&w, name);
    jw_cstr(&w, message);
    jw_end(&w);
    answer(q, status, &json);
    buf_fini(&json);
}

/* Who is meant: the provider told by name or port, else the one that was asked; NULL = nobody. */
static struct provider *meant(struct provider *asked, const struct mock_order *o)
{
    if (o->provider.p == NULL && o->port < 0)
        return asked;
    LIST_EACH(&asked->mock->providers, node)
    {
        struct provider *p = LIST_ITEM(node, struct provider, node);
        if (o->provider.p != NULL ? bytes_is(o->provider, p->conf.name) : p->address.port == o->port)
            return p;
    }
    return NULL;
}

/* ?after=N */
static uint64_t after_of(struct bytes query)
{
    uint64_t n = 0;
    if (bytes_starts_with(query, BYTES("after=")) && bytes_to_u64(bytes_slice(query, 6, query.n), &n))
        return n;
    return 0;
}

static void answer_log(const struct provider *p, const struct mock_request *q)
{
    struct buf json = {0};
    mock_log_json(&p->log, p->conf.name, after_of(q->head->query), &json);
    answer(q, 200, &json);
    buf_fini(&json);
}

static void answer_state(const struct provider *p, const struct mock_request *q)
{
    struct buf json = {0};
    struct json_writer w;
    jw_init(&w, &json);
    jw_object(&w);
    jw_named_cstr(&w, "provider", p->conf.name);
    jw_named_uint(&w, "port", p->address.port);
    jw_named_uint(&w, "since_reset_ms", provider_since_reset_ms(p));
    jw_named_uint(&w, "requests", p->log.n);
    jw_named_uint(&w, "overwritten", mock_log_overwritten(&p->log));
    jw_named_uint(&w, "active", p->n_active);
    jw_key(&w, "attempts");
    jw_object(&w);
    for (size_t i = 0; i < p->log.n_models; i++)
        jw_named_uint(&w, p->log.models[i].model, p->log.models[i].n);
    jw_end(&w);
    jw_end(&w);
    answer(q, 200, &json);
    buf_fini(&json);
}

static void answer_rules(struct provider *p, const struct mock_request *q, const struct mock_order *o)
{
    provider_set_rules(p, o->v, o->n, q->conn);
    mock_control_message(q, 200, "fault", fault_word(&o->v[0].fault));
}

void mock_control_answer(struct provider *asked, const struct mock_request *q)
{
    struct bytes path = q->head->path;
    bool is_post = bytes_is(q->head->method, "POST");
    bool is_fault = is_post && bytes_is(path, "/_mock/fault");
    struct mock_order *o = ARENA_NEW(q->arena, struct mock_order);
    const char *why = mock_order_read(q->body, is_fault, q->arena, o);
    struct provider *p = meant(asked, o);
    if (why == NULL && p == NULL)
        why = "no provider has that name or port";
    if (why != NULL) {
        mock_control_message(q, 400, "error", why);
    } else if (is_fault) {
        answer_rules(p, q, o);
    } else if (is_post && bytes_is(path, "/_mock/reset")) {
        provider_reset(p, q->conn);
        mock_control_message(q, 200, "fault", p->n_rules > 0 ? fault_word(&p->rules[0].fault) : "ok");
    } else if (bytes_is(path, "/_mock/log")) {
        answer_log(p, q);
    } else if (bytes_is(path, "/_mock/state")) {
        answer_state(p, q);
    } else {
        mock_control_message(
            q, 404, "error",
            "the orders are POST /_mock/fault, POST /_mock/reset, GET /_mock/log and GET /_mock/state");
    }
}
