/* What the client sent is shown back cut and cleaned: it goes into messages that people read in logs and terminals. */
#include "front/refusal.h"

#include "dialect/error.h"
#include "front/front_impl.h"
#include "front/reply.h"
#include "model/failure.h"

enum { SHOWN_BYTES = 128 };

/* What the client sent, for a message: cut, without control characters. */
static const char *shown(struct visit *v, struct bytes text)
{
    char *copy = arena_alloc(v->call.arena, SHOWN_BYTES + 1);
    failure_text(copy, SHOWN_BYTES + 1, text);
    return copy;
}

static unsigned set(struct visit *v, unsigned status, const char *code, const char *anthropic_type,
                    struct bytes message)
{
    v->refusal = ARENA_NEW(v->call.arena, struct refusal);
    v->refusal->reason = (struct answer_error){.status = status,
                                               .openai_type = status >= 500 ? "server_error" : "invalid_request_error",
                                               .openai_code = code,
                                               .anthropic_type = anthropic_type,
                                               .message = message,
                                               .retry_after_ms = -1,
                                               .request_id = v->call.id_text};
    return status;
}

unsigned refusal_not_found(struct visit *v, struct bytes method, struct bytes path)
{
    struct bytes message = arena_printf(v->call.arena, "There is no %s %s here.", shown(v, method), shown(v, path));
    return set(v, 404, "not_found", "not_found_error", message);
}

unsigned refusal_method(struct visit *v, struct bytes method, const char *allow)
{
    struct bytes message =
        arena_printf(v->call.arena, "Method %s is not allowed here; allowed: %s.", shown(v, method), allow);
    set(v, 405, "method_not_allowed", "invalid_request_error", message);
    v->refusal->allow = allow;
    return 405;
}

unsigned refusal_key(struct visit *v, bool has_key)
{
    struct bytes none = BYTES("No API key was sent. Send one as 'Authorization: Bearer KEY' or 'x-api-key: KEY'.");
    struct bytes wrong = BYTES("The API key is not one of this gateway's client keys.");
    return set(v, 401, "invalid_api_key", "authentication_error", has_key ? wrong : none);
}

unsigned refusal_body(struct visit *v, const char *why)
{
    return set(v, 400, NULL, "invalid_request_error", bytes_of(why));
}

unsigned refusal_model(struct visit *v, const struct config *c)
{
    struct bytes model = v->call.call->model;
    const char *asked = shown(v, model), *near = models_nearest(c, model);
    struct bytes message =
        near == NULL
            ? arena_printf(v->call.arena, "The model '%s' does not exist here.", asked)
            : arena_printf(v->call.arena, "The model '%s' does not exist here. Did you mean '%s'?", asked, near);
    set(v, 404, "model_not_found", "not_found_error", message);
    v->refusal->reason.param = "model";
    return 404;
}

unsigned refusal_by_driver(struct visit *v, unsigned status, const char *why)
{
    switch (status) {
    case 408:
        return set(v, status, "request_timeout", "invalid_request_error", bytes_of(why));
    case 413:
        return set(v, status, "request_too_large", "request_too_large", bytes_of(why));
    case 503:
        set(v, status, "overloaded", "overloaded_error",
            BYTES("The gateway holds as many request bodies as limits.memory allows."));
        v->refusal->reason.retry_after_ms = 1000;
        return status;
    default:
        return set(v, status, NULL, status >= 500 ? "api_error" : "invalid_request_error", bytes_of(why));
    }
}

static struct request_record record_of(const struct visit *v)
{
    const struct client_call *c = &v->call;
    int64_t us = (int64_t)(loop_now_us(v->front->loop) - c->inbound->arrived_us);
    return (struct request_record){.id = c->id,
                                   .started_wall_ms = loop_wall_ms(v->front->loop) - us / 1000,
                                   .key = c->key,
                                   .route = c->call != NULL ? arena_dup(c->arena, c->call->model).p : "",
                                   .dialect = c->dialect->name,
                                   .is_stream = c->is_stream,
                                   .status = (uint16_t)v->refusal->reason.status,
                                   .outcome = OUTCOME_CLIENT_ERROR,
                                   .served_link = -1,
                                   .ttft_us = -1,
                                   .total_us = us,
                                   .max_tokens = -1,
                                   .effort = "",
                                   .adjusted = "",
                                   .trace_id = c->trace_id};
}

void refusal_answer(struct visit *v)
{
    struct buf body = {0}, fields = {0};
    struct answer_error *reason = &v->refusal->reason;
    reason->status = error_status(v->call.dialect, reason);
    struct request_record rec = record_of(v);
    struct reply_facts facts = {.id_text = v->call.id_text, .rec = &rec};
    if (v->front->handler.on_refused != NULL)
        v->front->handler.on_refused(&rec, v->front->arg);
    if (v->refusal->allow != NULL)
        head_put_field(&fields, "allow", bytes_of(v->refusal->allow));
    if (reason->status == 401)
        head_put_field(&fields, "www-authenticate", BYTES("Bearer"));
    if (reason->retry_after_ms >= 0)
        head_put_field(&fields, "retry-after", BYTES("1"));
    error_body(v->call.dialect, reason, &body);
    reply_whole(&v->call, reason->status, &facts, buf_bytes(&fields), buf_bytes(&body));
    buf_fini(&fields);
    buf_fini(&body);
}
