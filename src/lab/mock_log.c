#include "lab/mock_log.h"

#include "base/text.h"
#include "codec/json_write.h"

#include <stdio.h>

static void copy(char *to, size_t cap, struct bytes from)
{
    snprintf(to, cap, "%.*s", (int)(from.n < cap ? from.n : cap - 1), from.p != NULL ? from.p : "");
}

static bool is_secret(struct bytes name)
{
    return bytes_eq_nocase(name, BYTES("authorization")) || bytes_eq_nocase(name, BYTES("x-api-key")) ||
           bytes_eq_nocase(name, BYTES("cookie"));
}

static void put_headers(const struct head *head, struct buf *out)
{
    struct json_writer w;
    buf_clear(out);
    jw_init(&w, out);
    jw_object(&w);
    for (size_t i = 0; i < head->fields.n; i++) {
        char name[64], hidden[32];
        const struct field *f = &head->fields.v[i];
        copy(name, sizeof name, f->name);
        for (char *c = name; *c != '\0'; c++)
            *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
        jw_key(&w, name);
        snprintf(hidden, sizeof hidden, "(hidden, %zu bytes)", f->value.n);
        if (is_secret(f->name))
            jw_cstr(&w, hidden);
        else
            jw_string(&w, bytes_slice(f->value, 0, 256));
    }
    jw_end(&w);
}

struct seen *mock_log_add(struct mock_log *log, const struct head *head)
{
    log->serial++;
    log->n++;
    struct seen *s = &log->v[log->serial % MOCK_LOG_MAX];
    struct buf headers = buf_take(&s->headers);
    *s = (struct seen){.serial = log->serial, .n = log->n, .hung_up_ms = -1, .headers = headers};
    copy(s->method, sizeof s->method, head->method);
    copy(s->path, sizeof s->path, head->path);
    put_headers(head, &s->headers);
    return s;
}

struct seen *mock_log_find(struct mock_log *log, uint64_t serial)
{
    struct seen *s = &log->v[serial % MOCK_LOG_MAX];
    return serial != 0 && s->serial == serial ? s : NULL;
}

uint64_t mock_log_attempt(struct mock_log *log, struct bytes model)
{
    struct bytes name = bytes_slice(model, 0, MOCK_MODEL_BYTES - 1);
    size_t i = 0;
    while (i < log->n_models && !bytes_is(name, log->models[i].model))
        i++;
    if (i == log->n_models && log->n_models < MOCK_MODELS_MAX) {
        log->n_models++;
        log->models[i].n = 0;
        copy(log->models[i].model, sizeof log->models[i].model, i == MOCK_MODELS_MAX - 1 ? BYTES("(others)") : name);
    }
    if (i == log->n_models)
        i--;
    return ++log->models[i].n;
}

uint64_t mock_log_overwritten(const struct mock_log *log)
{
    return log->n > MOCK_LOG_MAX ? log->n - MOCK_LOG_MAX : 0;
}

void mock_log_clear(struct mock_log *log)
{
    for (size_t i = 0; i < MOCK_LOG_MAX; i++) {
        buf_fini(&log->v[i].headers);
        log->v[i].serial = 0;
    }
    log->n = 0;
    log->n_models = 0;
}

static void seen_json(const struct seen *s, const char *provider, struct json_writer *w)
{
    char time[TEXT_TIME_BYTES];
    text_time(s->wall_ms, time);
    jw_object(w);
    jw_named_int(w, "n", (int64_t)s->n);
    jw_named_text(w, "provider", provider);
    jw_named_text(w, "time", time);
    jw_named_int(w, "at_ms", (int64_t)s->at_ms);
    jw_named_text(w, "method", s->method);
    jw_named_text(w, "path", s->path);
    jw_key(w, "headers");
    jw_raw(w, buf_bytes(&s->headers));
    jw_named_int(w, "body_bytes", (int64_t)s->body_bytes);
    jw_named_int(w, "prompt_tokens", s->prompt_tokens);
    jw_named_int(w, "cache_read", s->cache_read);
    jw_named_int(w, "cache_write", s->cache_write);
    jw_named_int(w, "attempt", (int64_t)s->attempt);
    jw_named_text(w, "model", s->model);
    jw_named_text(w, "user", s->user);
    jw_named_bool(w, "stream", s->is_stream);
    jw_named_text(w, "fault", s->fault);
    jw_named_int(w, "status", s->status);
    jw_named_bool(w, "answered", s->is_answered);
    jw_named_bool(w, "hung_up", s->hung_up_ms >= 0);
    jw_key(w, "hung_up_ms");
    if (s->hung_up_ms >= 0)
        jw_int(w, s->hung_up_ms);
    else
        jw_null(w);
    jw_end(w);
}

void mock_log_json(const struct mock_log *log, const char *provider, uint64_t after, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_array(&w);
    uint64_t before = log->serial - log->n; /* serial of the last entry before the reset */
    uint64_t gone = mock_log_overwritten(log), first = gone > after ? gone : after;
    for (uint64_t n = first + 1; n <= log->n; n++)
        seen_json(&log->v[(before + n) % MOCK_LOG_MAX], provider, &w);
    jw_end(&w);
}
