#include "dialect/openai_usage.h"

/* More than any model reads or writes in a call. A number beyond it is no report, or one broken server would put sums
 * on the ledger that nothing can be added to. */
static const int64_t COUNT_MAX = INT64_C(1000000000);

static int64_t count(yyjson_val *object, const char *name)
{
    int64_t v = json_tree_int(object, name, -1);
    return v > COUNT_MAX || v < 0 ? -1 : v;
}

/* The first of the names that is there. */
static int64_t count_any(yyjson_val *object, const char *const *names, size_t n)
{
    int64_t v = -1;
    for (size_t i = 0; i < n && v < 0; i++)
        v = count(object, names[i]);
    return v;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The details, by either name. */
static yyjson_val *details_of(yyjson_val *told, const char *name, const char *other)
{
    yyjson_val *details = yyjson_obj_get(told, name);
    return yyjson_is_obj(details) ? details : yyjson_obj_get(told, other);
}

/* prompt_tokens holds the cached and the written tokens; ours are disjoint. */
static void split_prompt(const struct openai_told *told, struct usage *out)
{
    int64_t cached = told->cached, written = told->written;
    if (told->prompt >= 0) {
        cached = least(cached, told->prompt);
        written = least(written, told->prompt - (cached > 0 ? cached : 0));
        out->input = told->prompt - (cached > 0 ? cached : 0) - (written > 0 ? written : 0);
    }
    out->cache_read = cached;
    out->cache_write_5m = written;
}

bool openai_usage_of(const struct openai_told *told, struct usage *out)
{
    int64_t prompt = told->prompt, completion = told->completion, reasoning = told->reasoning;
    *out = USAGE_NONE;
    split_prompt(told, out);
    /* xAI: the completion is told without its reasoning, and only the total says so. */
    if (reasoning > 0 && prompt >= 0 && completion >= 0 && told->total == prompt + completion + reasoning)
        completion += reasoning;
    out->output = completion;
    out->reasoning = completion >= 0 ? least(reasoning, completion) : reasoning;
    return prompt >= 0 || completion >= 0;
}

bool openai_usage_read(yyjson_val *told, struct usage *out)
{
    static const char *const prompts[] = {"prompt_tokens", "input_tokens"};
    static const char *const completions[] = {"completion_tokens", "output_tokens"};
    static const char *const hits[] = {"cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens"};
    yyjson_val *of_prompt = details_of(told, "prompt_tokens_details", "input_tokens_details");
    yyjson_val *of_completion = details_of(told, "completion_tokens_details", "output_tokens_details");
    struct openai_told t = {.prompt = count_any(told, prompts, 2),
                            .completion = count_any(told, completions, 2),
                            .total = count(told, "total_tokens"),
                            .cached = count(of_prompt, "cached_tokens"),
                            .written = count(of_prompt, "cache_write_tokens"),
                            .reasoning = count(of_completion, "reasoning_tokens")};
    if (t.cached < 0)
        t.cached = count_any(told, hits, RM_COUNTOF(hits));
    return openai_usage_of(&t, out);
}

static int64_t known(int64_t v)
{
    return v > 0 ? v : 0;
}

static void member(struct json_writer *w, const char *name, int64_t v)
{
    jw_key(w, name);
    jw_int(w, known(v));
}

void openai_usage_write(struct json_writer *w, const struct usage *u)
{
    jw_object(w);
    member(w, "prompt_tokens", usage_prompt(u));
    member(w, "completion_tokens", u->output);
    member(w, "total_tokens", usage_prompt(u) + known(u->output));
    jw_key(w, "prompt_tokens_details");
    jw_object(w);
    member(w, "cached_tokens", u->cache_read);
    member(w, "cache_write_tokens", known(u->cache_write_5m) + known(u->cache_write_1h));
    jw_end(w);
    jw_key(w, "completion_tokens_details");
    jw_object(w);
    member(w, "reasoning_tokens", u->reasoning);
    jw_end(w);
    jw_end(w);
}
