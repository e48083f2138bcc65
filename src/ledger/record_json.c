/* The object of "a request, read back". "Did not happen" and "unknown" are null, never 0 or an empty text; a 64-bit
 * hash is hexadecimal text, because a JSON reader may keep numbers as doubles. */
#include "base/text.h"
#include "codec/json_write.h"
#include "ledger/ledger.h"

#include <stdio.h>

/* 2020-01-01T00:00:00Z */
#define ID_EPOCH_MS INT64_C(1577836800000)

uint64_t ledger_new_id(int64_t wall_ms, unsigned core, uint32_t *counter)
{
    int64_t ms = wall_ms > ID_EPOCH_MS ? wall_ms - ID_EPOCH_MS : 0;
    uint32_t n = (*counter)++;
    return (uint64_t)ms << 22 | (uint64_t)(core & 63) << 16 | (n & 0xffff);
}

static void text_or_null(struct json_writer *w, const char *name, const char *v)
{
    jw_key(w, name);
    if (v == NULL || *v == '\0')
        jw_null(w);
    else
        jw_cstr(w, v);
}

static void int_or_null(struct json_writer *w, const char *name, int64_t v, bool is_there)
{
    jw_key(w, name);
    if (is_there)
        jw_int(w, v);
    else
        jw_null(w);
}

static void count(struct json_writer *w, const char *name, int64_t v)
{
    int_or_null(w, name, v, v >= 0);
}

static void money(struct json_writer *w, const char *name, int64_t nusd)
{
    int_or_null(w, name, nusd, nusd != NUSD_UNKNOWN);
}

static void tokens_json(struct json_writer *w, const struct usage *u)
{
    jw_key(w, "tokens");
    jw_object(w);
    count(w, "input", u->input);
    count(w, "cache_read", u->cache_read);
    count(w, "cache_write_5m", u->cache_write_5m);
    count(w, "cache_write_1h", u->cache_write_1h);
    count(w, "output", u->output);
    count(w, "reasoning", u->reasoning);
    jw_end(w);
}

static void attempt_json(struct json_writer *w, const struct attempt_record *a)
{
    jw_object(w);
    jw_key(w, "n");
    jw_uint(w, a->n);
    jw_key(w, "kind");
    jw_cstr(w, attempt_kind_word(a->kind));
    jw_key(w, "link");
    jw_uint(w, a->link);
    text_or_null(w, "provider", a->provider);
    text_or_null(w, "model", a->model);
    jw_key(w, "outcome");
    jw_cstr(w, outcome_word(a->outcome));
    jw_key(w, "in_stream");
    jw_bool(w, a->in_stream);
    int_or_null(w, "status", a->status, a->status != 0);
    int_or_null(w, "start_us", a->start_us, a->is_started && a->start_us >= 0);
    int_or_null(w, "connect_us", a->connect_us, a->is_started && a->connect_us >= 0);
    int_or_null(w, "first_byte_us", a->first_byte_us, a->is_started && a->first_byte_us >= 0);
    int_or_null(w, "ttft_us", a->ttft_us, a->is_started && a->ttft_us >= 0);
    int_or_null(w, "total_us", a->total_us, a->is_started && a->total_us >= 0);
    tokens_json(w, &a->tokens);
    jw_key(w, "tokens_from");
    jw_cstr(w, tokens_from_word(a->tokens_from));
    text_or_null(w, "service", a->service);
    text_or_null(w, "service_from", a->service[0] == '\0' ? NULL : a->is_service_told ? "reported" : "requested");
    text_or_null(w, "price_version", a->price_version);
    text_or_null(w, "price_certainty", a->price_version == NULL ? NULL : price_certainty_word(a->is_price_standin));
    money(w, "cost_nusd", a->cost_nusd);
    money(w, "waste_nusd", a->waste_nusd);
    count(w, "retry_after_ms", a->retry_after_ms);
    text_or_null(w, "provider_request_id", a->provider_request_id);
    text_or_null(w, "decision", a->decision);
    jw_end(w);
}

static void request_json(struct json_writer *w, const struct request_record *rec)
{
    char id[TEXT_ID_BYTES], time[TEXT_TIME_BYTES], hash[17];
    text_id(rec->id, id);
    text_time(rec->started_wall_ms, time);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)rec->prefix_hash);
    jw_key(w, "id");
    jw_cstr(w, id);
    jw_key(w, "started");
    jw_cstr(w, time);
    text_or_null(w, "key", rec->key);
    text_or_null(w, "route", rec->route);
    text_or_null(w, "dialect", rec->dialect);
    jw_key(w, "stream");
    jw_bool(w, rec->is_stream);
    int_or_null(w, "status", rec->status, rec->status != 0);
    jw_key(w, "outcome");
    jw_cstr(w, outcome_word(rec->outcome));
    text_or_null(w, "provider", rec->provider);
    text_or_null(w, "model", rec->model);
    count(w, "served_link", rec->served_link);
    count(w, "ttft_us", rec->ttft_us);
    count(w, "total_us", rec->total_us);
    count(w, "gateway_us", rec->gateway_us);
    count(w, "prompt_bytes", rec->prompt_bytes);
    count(w, "max_tokens", rec->max_tokens);
    text_or_null(w, "effort", rec->effort);
    text_or_null(w, "prefix_hash", rec->prefix_hash != 0 ? hash : NULL);
    money(w, "cost_nusd", rec->cost_nusd);
    money(w, "waste_nusd", rec->waste_nusd);
    text_or_null(w, "adjusted", rec->adjusted);
    text_or_null(w, "trace_id", rec->trace_id);
}

void record_json(const struct request_record *rec, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    request_json(&w, rec);
    jw_key(&w, "attempts");
    jw_array(&w);
    for (unsigned i = 0; i < rec->n_attempts; i++)
        attempt_json(&w, &rec->attempts[i]);
    jw_end(&w);
    jw_end(&w);
}
