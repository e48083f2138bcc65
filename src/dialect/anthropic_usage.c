#include "dialect/anthropic_usage.h"

/* More than any model reads or writes in a call. A number beyond it is no report, or one broken server would put sums
 * on the ledger that nothing can be added to. */
static const int64_t COUNT_MAX = INT64_C(1000000000);

static int64_t count(yyjson_val *object, const char *name)
{
    int64_t v = json_tree_int(object, name, -1);
    return v > COUNT_MAX || v < 0 ? -1 : v;
}

static int64_t known(int64_t v)
{
    return v > 0 ? v : 0;
}

/* The total is not a third bucket: it is split by ttl; what the split does not name is 5m. A total alone keeps the 1h
 * part that an earlier report named. */
static void merge_writes(yyjson_val *told, struct usage *u)
{
    yyjson_val *split = yyjson_obj_get(told, "cache_creation");
    int64_t total = count(told, "cache_creation_input_tokens");
    int64_t m5 = count(split, "ephemeral_5m_input_tokens"), h1 = count(split, "ephemeral_1h_input_tokens");
    if (total < 0 && m5 < 0 && h1 < 0)
        return;
    if (m5 < 0 && h1 < 0)
        h1 = known(u->cache_write_1h) < total ? known(u->cache_write_1h) : total;
    m5 = known(m5);
    h1 = known(h1);
    if (total > m5 + h1)
        m5 = total - h1;
    u->cache_write_5m = m5;
    u->cache_write_1h = h1;
}

static bool merge_one(yyjson_val *told, struct usage *u)
{
    struct usage before = *u;
    struct usage later = USAGE_NONE;
    later.input = count(told, "input_tokens");
    later.cache_read = count(told, "cache_read_input_tokens");
    later.output = count(told, "output_tokens");
    later.reasoning = count(yyjson_obj_get(told, "output_tokens_details"), "thinking_tokens");
    usage_merge(u, &later);
    merge_writes(told, u);
    return later.input >= 0 || later.output >= 0 || later.cache_read >= 0 ||
           before.cache_write_5m != u->cache_write_5m || before.cache_write_1h != u->cache_write_1h;
}

static int64_t sum(int64_t a, int64_t b)
{
    return a < 0 ? b : a + known(b);
}

/* Billed sub-calls: the top-level numbers cover only the last one. */
static bool sum_iterations(yyjson_val *list, struct usage *u)
{
    struct usage all = USAGE_NONE;
    yyjson_val *one;
    size_t i, n;
    yyjson_arr_foreach(list, i, n, one)
    {
        struct usage part = USAGE_NONE;
        if (i >= 1000 || !merge_one(one, &part))
            continue;
        all.input = sum(all.input, part.input);
        all.cache_read = sum(all.cache_read, part.cache_read);
        all.cache_write_5m = sum(all.cache_write_5m, part.cache_write_5m);
        all.cache_write_1h = sum(all.cache_write_1h, part.cache_write_1h);
        all.output = sum(all.output, part.output);
        all.reasoning = sum(all.reasoning, part.reasoning);
    }
    usage_merge(u, &all);
    return usage_is_known(&all);
}

bool anthropic_usage_merge(yyjson_val *told, struct usage *u)
{
    bool found = merge_one(told, u);
    found |= sum_iterations(yyjson_obj_get(told, "iterations"), u);
    if (u->output >= 0 && u->reasoning > u->output)
        u->reasoning = u->output;
    return found;
}

/* Three members say what it was charged as. Fast mode has rates of its own whatever the tier; a place has where the
 * tier is the plain one. */
struct bytes anthropic_usage_service(yyjson_val *told)
{
    struct bytes tier = json_tree_str(told, "service_tier");
    bool is_plain = tier.n == 0 || bytes_is(tier, "standard");
    if (bytes_is(json_tree_str(told, "speed"), "fast"))
        return BYTES("fast");
    return is_plain && bytes_is(json_tree_str(told, "inference_geo"), "us") ? BYTES("us") : tier;
}

static void member(struct json_writer *w, const char *name, int64_t v)
{
    jw_key(w, name);
    jw_int(w, known(v));
}

void anthropic_usage_write(struct json_writer *w, const struct usage *u)
{
    jw_object(w);
    member(w, "input_tokens", u->input);
    member(w, "cache_creation_input_tokens", known(u->cache_write_5m) + known(u->cache_write_1h));
    member(w, "cache_read_input_tokens", u->cache_read);
    jw_key(w, "cache_creation");
    jw_object(w);
    member(w, "ephemeral_5m_input_tokens", u->cache_write_5m);
    member(w, "ephemeral_1h_input_tokens", u->cache_write_1h);
    jw_end(w);
    member(w, "output_tokens", u->output);
    if (u->reasoning >= 0) {
        jw_key(w, "output_tokens_details");
        jw_object(w);
        member(w, "thinking_tokens", u->reasoning);
        jw_end(w);
    }
    jw_end(w);
}
