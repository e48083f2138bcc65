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
    log->n++;
    struct seen *s = &log->v[log->n % MOCK_LOG_MAX];
    struct buf headers = buf_take(&s->headers);
    *s = (struct seen){.n = log->n, .hung_up_ms = -1, .headers = headers};
    copy(s->method, sizeof s->method, head->method);
    copy(s->path, sizeof s->path, head->path);
    put_headers(head, &s->headers);
    return s;
}

struct seen *mock_log_find(struct mock_log *log, uint64_t n)
{
    struct seen *s = &log->v[n % MOCK_LOG_MAX];
    return n != 0 && s->n == n ? s : NULL;
}

void mock_log_clear(struct mock_log *log)
{
    for (size_t i = 0; i < MOCK_LOG_MAX; i++) {
        buf_fini(&log->v[i].headers);
        log->v[i].n = 0;
    }
}

static void named(struct json_writer *w, const char *name, const char *text)
{
    jw_key(w, name);
    if (*text == '\0')
        jw_null(w);
    else
        jw_cstr(w, text);
}

static void seen_json(const struct seen *s, struct json_writer *w)
{
    char time[TEXT_TIME_BYTES];
    text_time(s->wall_ms, time);
    jw_object(w);
    jw_key(w, "n");
    jw_uint(w, s->n);
    named(w, "time", time);
    named(w, "method", s->method);
    named(w, "path", s->path);
    jw_key(w, "headers");
    jw_raw(w, buf_bytes(&s->headers));
    jw_key(w, "body_bytes");
    jw_uint(w, s->body_bytes);
    named(w, "model", s->model);
    jw_key(w, "stream");
    jw_bool(w, s->is_stream);
    named(w, "fault", s->fault);
    jw_key(w, "status");
    jw_uint(w, s->status);
    jw_key(w, "answered");
    jw_bool(w, s->is_answered);
    jw_key(w, "hung_up");
    jw_bool(w, s->hung_up_ms >= 0);
    jw_key(w, "hung_up_ms");
    if (s->hung_up_ms >= 0)
        jw_int(w, s->hung_up_ms);
    else
        jw_null(w);
    jw_end(w);
}

void mock_log_json(const struct mock_log *log, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_array(&w);
    uint64_t first = log->n >= MOCK_LOG_MAX ? log->n - MOCK_LOG_MAX + 1 : 1;
    for (uint64_t n = first; n <= log->n; n++)
        if (log->v[n % MOCK_LOG_MAX].n == n)
            seen_json(&log->v[n % MOCK_LOG_MAX], &w);
    jw_end(&w);
}
