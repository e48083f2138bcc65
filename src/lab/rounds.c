#include "lab/rounds.h"

#include "codec/json_tree.h"
#include "codec/json_write.h"

#include <stdio.h>

/* What must be equal for rounds to be merged: one text of the settings that decide what is measured. */
static void settings_text(const struct result_settings *s, struct buf *out)
{
    buf_printf(out, "concurrency=%u n=%u rate=%.3f system=%u user=%u budget=%u", s->concurrency, s->requests_per_phase,
               s->rate, s->system_tokens, s->user_tokens, s->ttft_budget_ms);
    for (size_t i = 0; i < s->n_providers; i++)
        buf_printf(out, " %s:%s:%s:%s", s->providers[i].name, s->providers[i].dialect, s->providers[i].model,
                   s->providers[i].ttft);
}

static void money(struct json_writer *w, int64_t nusd)
{
    if (nusd == NUSD_UNKNOWN)
        jw_null(w);
    else
        jw_int(w, nusd);
}

static void sample_json(struct json_writer *w, const struct sample *s)
{
    jw_array(w);
    jw_uint(w, s->round);
    jw_uint(w, s->due_us);
    jw_uint(w, s->start_us);
    jw_uint(w, s->first_us);
    jw_uint(w, s->end_us);
    jw_uint(w, s->status);
    jw_uint(w, s->attempts);
    jw_cstr(w, s->is_ok ? "" : s->error[0] != '\0' ? s->error : "not_sent");
    jw_cstr(w, s->provider);
    jw_int(w, s->input);
    jw_int(w, s->output);
    money(w, s->cost_nusd);
    money(w, s->waste_nusd);
    jw_end(w);
}

void rounds_json(const struct result *r, unsigned n_rounds, struct buf *out)
{
    struct json_writer w;
    struct buf settings = {0};
    settings_text(&r->settings, &settings);
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "format");
    jw_cstr(&w, "ringmain-bench-rounds/1");
    jw_key(&w, "settings");
    jw_string(&w, buf_bytes(&settings));
    jw_key(&w, "rounds");
    jw_uint(&w, n_rounds);
    jw_key(&w, "phases");
    jw_object(&w);
    for (int i = 0; i < PHASE_N; i++) {
        jw_key(&w, phase_spec((enum phase_id)i)->name);
        jw_array(&w);
        for (size_t k = 0; k < r->phases[i].n; k++)
            sample_json(&w, &r->phases[i].v[k]);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    buf_fini(&settings);
}

enum { SAMPLE_MEMBERS = 13, ROUNDS_MAX = 10000 };

static bool whole(yyjson_val *v, int64_t max, int64_t *out)
{
    return json_tree_to_int(v, out) && *out >= -1 && *out <= max;
}

static bool read_money(yyjson_val *v, int64_t *out)
{
    *out = NUSD_UNKNOWN;
    return yyjson_is_null(v) || (json_tree_to_int(v, out) && *out >= 0);
}

static bool read_sample(yyjson_val *v, struct sample *s)
{
    yyjson_val *m[SAMPLE_MEMBERS];
    int64_t n[7];
    if (yyjson_arr_size(v) != SAMPLE_MEMBERS)
        return false;
    for (size_t i = 0; i < SAMPLE_MEMBERS; i++)
        m[i] = yyjson_arr_get(v, i);
    for (size_t i = 0; i < RM_COUNTOF(n); i++)
        if (!whole(m[i], i == 0 ? ROUNDS_MAX : i >= 5 ? UINT16_MAX : INT64_C(1) << 50, &n[i]) || n[i] < 0)
            return false;
    struct bytes error = json_tree_bytes(m[7]), provider = json_tree_bytes(m[8]);
    *s = sample_none((uint32_t)n[0]);
    s->due_us = (uint64_t)n[1];
    s->start_us = (uint64_t)n[2];
    s->first_us = (uint64_t)n[3];
    s->end_us = (uint64_t)n[4];
    s->status = (uint16_t)n[5];
    s->attempts = (uint16_t)n[6];
    s->is_ok = error.p != NULL && error.n == 0;
    snprintf(s->error, sizeof s->error, "%.*s", (int)error.n, error.p ? error.p : "");
    snprintf(s->provider, sizeof s->provider, "%.*s", (int)provider.n, provider.p ? provider.p : "");
    bool is_timed = !s->is_ok || (s->first_us >= s->due_us && s->end_us >= s->due_us);
    return error.p != NULL && provider.p != NULL && is_timed && whole(m[9], INT64_C(1) << 40, &s->input) &&
           whole(m[10], INT64_C(1) << 40, &s->output) && read_money(m[11], &s->cost_nusd) &&
           read_money(m[12], &s->waste_nusd);
}

/* Twice: to check, then to keep, so that a bad file leaves nothing behind. */
static bool read_phases(yyjson_val *phases, int64_t n_rounds, struct result *r)
{
    for (int i = 0; i < PHASE_N; i++) {
        yyjson_val *list = yyjson_obj_get(phases, phase_spec((enum phase_id)i)->name), *v;
        size_t at, n;
        yyjson_arr_foreach(list, at, n, v)
        {
            struct sample s;
            if (!read_sample(v, &s) || s.round >= n_rounds)
                return false;
            if (r != NULL)
                phase_put(&r->phases[i], &s);
        }
    }
    return true;
}

bool rounds_read(struct bytes json, struct result *r, unsigned *n_rounds, const char **why)
{
    struct arena arena = {0};
    struct buf settings = {0};
    yyjson_val *root = NULL;
    *why = NULL;
    settings_text(&r->settings, &settings);
    if (json_tree_parse(json, 16, &arena, &root) != ERR_OK ||
        !bytes_is(json_tree_str(root, "format"), "ringmain-bench-rounds/1"))
        *why = "it is no file of rounds (ringmain-bench-rounds/1)";
    else if (!bytes_eq(json_tree_str(root, "settings"), buf_bytes(&settings)))
        *why = "its rounds were measured under other settings";
    int64_t n = *why == NULL ? json_tree_int(root, "rounds", -1) : 0;
    yyjson_val *phases = *why == NULL ? yyjson_obj_get(root, "phases") : NULL;
    if (*why == NULL && (n < 0 || n > ROUNDS_MAX || !read_phases(phases, n, NULL)))
        *why = "it is damaged";
    if (*why == NULL) {
        read_phases(phases, n, r);
        *n_rounds = (unsigned)n;
    }
    buf_fini(&settings);
    arena_fini(&arena);
    return *why == NULL;
}
