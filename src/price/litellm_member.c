#include "price/litellm_member.h"

#include "base/check.h"

/* Longer names first where one begins with another. */
static const struct base {
    const char *name;
    enum rate_kind kind;
} bases[] = {
    {"input_cost_per_token_cache_hit", RATE_READ}, /* its older name */
    {"input_cost_per_token", RATE_INPUT},
    {"output_cost_per_token", RATE_OUTPUT},
    {"output_cost_per_reasoning_token", RATE_REASONING},
    {"cache_read_input_token_cost", RATE_READ},
    {"cache_creation_input_token_cost_above_1hr", RATE_WRITE_1H}, /* the time to live, not a size */
    {"cache_creation_input_token_cost", RATE_WRITE_5M},
};

static const char *const services[SERVICE_N] = {"", "flex", "priority", "batches"};

/* Parts of the names of prices for what is not text tokens. */
static const char *const unused[] = {
    "audio",         "image",        "video",    "character",        "second", "pixel",  "query", "page",
    "session",       "_gb_",         "dbu",      "per_1k_",          "unit",   "search", "maps",  "guardrail",
    "citation_cost", "vector_store", "per_call", "code_interpreter", NULL};
/* Parts of the names of members that are no prices; a name begins with one of them. */
static const char *const plain[] = {"supports_",
                                    "supported_",
                                    "max_",
                                    "mode",
                                    "litellm_provider",
                                    "aliases",
                                    "source",
                                    "comment",
                                    "metadata",
                                    "deprecation_date",
                                    "tpm",
                                    "rpm",
                                    "rpd",
                                    "tool_use_system_prompt_tokens",
                                    "output_vector_size",
                                    "prompt_cache_min_tokens",
                                    "reasoning_effort_levels",
                                    "default_reasoning_effort",
                                    "thinking_always_on",
                                    "use_openai_responses_path",
                                    "inference_geo",
                                    "hours_utc",
                                    "windows",
                                    "weekday_timezone",
                                    NULL};

const char *service_word(enum service s)
{
    RM_ASSERT(s < SERVICE_N);
    return services[s];
}

static bool take(struct bytes *t, const char *word)
{
    struct bytes w = bytes_of(word);
    if (!bytes_starts_with(*t, w))
        return false;
    *t = bytes_slice(*t, w.n, t->n);
    return true;
}

/* "_above_200k_tokens"; leaves *t as it was where that is not what stands there. */
static bool take_above(struct bytes *t, int64_t *above)
{
    struct bytes rest = *t;
    uint64_t v;
    size_t n = 0;
    if (!take(&rest, "_above_"))
        return false;
    while (n < rest.n && rest.p[n] >= '0' && rest.p[n] <= '9')
        n++;
    if (!bytes_to_u64(bytes_slice(rest, 0, n), &v) || v == 0 || v > 1000000000)
        return false;
    rest = bytes_slice(rest, n, rest.n);
    int64_t unit = take(&rest, "k") ? 1000 : take(&rest, "m") ? 1000000 : 1;
    if (!take(&rest, "_tokens"))
        return false;
    *above = (int64_t)v * unit;
    *t = rest;
    return true;
}

static bool read_suffixes(struct bytes rest, struct member *m)
{
    take_above(&rest, &m->above);
    if (rest.n == 0)
        return true;
    if (!take(&rest, "_"))
        return false;
    for (int s = SERVICE_FLEX; s < SERVICE_N; s++)
        if (bytes_is(rest, services[s])) {
            m->service = (enum service)s;
            return true;
        }
    return false;
}

bool member_is_rate(struct bytes name, enum rate_kind *kind)
{
    for (size_t i = 0; i < RM_COUNTOF(bases); i++)
        if (bytes_is(name, bases[i].name)) {
            *kind = bases[i].kind;
            return true;
        }
    return false;
}

static bool has_part(struct bytes name, const char *const *parts)
{
    for (; *parts != NULL; parts++)
        if (bytes_find(name, bytes_of(*parts)) != SIZE_MAX)
            return true;
    return false;
}

static bool begins(struct bytes name, const char *const *parts)
{
    for (; *parts != NULL; parts++)
        if (bytes_starts_with(name, bytes_of(*parts)))
            return true;
    return false;
}

static bool is_uplift(struct bytes name, struct bytes *region)
{
    static const char *const heads[] = {"regional_processing_uplift_multiplier", "regional_endpoint_uplift_multiplier"};
    for (size_t i = 0; i < RM_COUNTOF(heads); i++) {
        *region = name;
        if (take(region, heads[i]))
            return region->n == 0 || take(region, "_");
    }
    return false;
}

struct member member_of(struct bytes name)
{
    struct member m = {.sort = MEMBER_RATE};
    for (size_t i = 0; i < RM_COUNTOF(bases); i++) {
        struct bytes rest = name;
        m.kind = bases[i].kind;
        m.above = 0;
        if (take(&rest, bases[i].name) && read_suffixes(rest, &m))
            return m;
    }
    if (bytes_is(name, "input_cost_per_request"))
        m.sort = MEMBER_REQUEST;
    else if (bytes_is(name, "tiered_pricing"))
        m.sort = MEMBER_TIERED;
    else if (bytes_is(name, "off_peak_pricing"))
        m.sort = MEMBER_OFF_PEAK;
    else if (bytes_is(name, "provider_specific_entry"))
        m.sort = MEMBER_MULTIPLIERS;
    else if (is_uplift(name, &m.region))
        m.sort = MEMBER_UPLIFT;
    else if (begins(name, plain))
        m.sort = MEMBER_PLAIN;
    else
        m.sort = has_part(name, unused) ? MEMBER_UNUSED : MEMBER_STRANGE;
    return m;
}
