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

static void money(struct json_writer *w, const char *name, int64_t nusd)
{
    jw_named_known(w, name, nusd, nusd != NUSD_UNKNOWN);
}

static void tokens_json(struct json_writer *w, const struct usage *u)
{
    jw_key(w, "tokens");
    jw_object(w);
    jw_named_count(w, "input", u->input);
    jw_named_count(w, "cache_read", u->cache_read);
    jw_named_count(w, "cache_write_5m", u->cache_write_5m);
    jw_named_count(w, "cache_write_1h", u->cache_write_1h);
    jw_named_count(w, "output", u->output);
    jw_named_count(w, "reasoning", u->reasoning);
    jw_end(w);
}

static void attempt_json(struct json_writer *w, const struct attempt_record *a)
{
    jw_object(w);
    jw_named_uint(w, "n", a->n);
    jw_named_cstr(w, "kind", attempt_kind_word(a->kind));
    jw_named_uint(w, "link", a->link);
    jw_named_text(w, "provider", a->provider);
    jw_named_text(w, "model", a->model);
    jw_named_cstr(w, "outcome", outcome_word(a->outcome));
    jw_named_bool(w, "in_stream", a->in_stream);
    jw_named_known(w, "status", a->status, a->status != 0);
    jw_named_known(w, "start_us", a->start_us, a->is_started && a->start_us >= 0);
    jw_named_known(w, "connect_us", a->connect_us, a->is_started && a->connect_us >= 0);
    jw_named_known(w, "first_byte_us", a->first_byte_us, a->is_started && a->first_byte_us >= 0);
    jw_named_known(w, "ttft_us", a->ttft_us, a->is_started && a->ttft_us >= 0);
    jw_named_known(w, "total_us", a->total_us, a->is_started && a->total_us >= 0);
    tokens_json(w, &a->tokens);
    jw_named_cstr(w, "tokens_from", tokens_from_word(a->tokens_from));
    jw_named_text(w, "service", a->service);
    jw_named_text(w, "service_from", a->service[0] == '\0' ? NULL : a->is_service_told ? "reported" : "requested");
    jw_named_text(w, "price_version", a->price_version);
    jw_named_text(w, "price_certainty", a->price_version == NULL ? NULL : price_certainty_word(a->is_price_standin));
    money(w, "cost_nusd", a->cost_nusd);
    money(w, "waste_nusd", a->waste_nusd);
    jw_named_count(w, "retry_after_ms", a->retry_after_ms);
    jw_named_text(w, "provider_request_id", a->provider_request_id);
    jw_named_text(w, "decision", a->decision);
    jw_end(w);
}

static void request_json(struct json_writer *w, const struct request_record *rec)
{
    char id[TEXT_ID_BYTES], time[TEXT_TIME_BYTES], hash[17];
    text_id(rec->id, id);
    text_time(rec->started_wall_ms, time);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)rec->prefix_hash);
    jw_named_cstr(w, "id", id);
    jw_named_cstr(w, "started", time);
    jw_named_text(w, "key", rec->key);
    jw_named_text(w, "route", rec->route);
    jw_named_text(w, "dialect", rec->dialect);
    jw_named_bool(w, "stream", rec->is_stream);
    jw_named_known(w, "status", rec->status, rec->status != 0);
    jw_named_cstr(w, "outcome", outcome_word(rec->outcome));
    jw_named_text(w, "provider", rec->provider);
    jw_named_text(w, "model", rec->model);
    jw_named_count(w, "served_link", rec->served_link);
    jw_named_count(w, "ttft_us", rec->ttft_us);
    jw_named_count(w, "total_us", rec->total_us);
    jw_named_count(w, "gateway_us", rec->gateway_us);
    jw_named_count(w, "prompt_bytes", rec->prompt_bytes);
    jw_named_count(w, "max_tokens", rec->max_tokens);
    jw_named_text(w, "effort", rec->effort);
    jw_named_text(w, "prefix_hash", rec->prefix_hash != 0 ? hash : NULL);
    money(w, "cost_nusd", rec->cost_nusd);
    money(w, "waste_nusd", rec->waste_nusd);
    jw_named_text(w, "adjusted", rec->adjusted);
    jw_named_text(w, "trace_id", rec->trace_id);
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
