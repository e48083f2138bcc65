/* A link that surely cannot serve a call is not asked: that would cost time, and its 400 would say nothing. Where
 * nothing is known (unset, 0) the link is asked. */
#include "plan/candidate.h"

int64_t candidate_prompt_tokens(const struct call *call)
{
    return (int64_t)((call->prompt_bytes + 3) / 4);
}

/* Tokenizers differ, hence the tenth. */
static bool fits_window(const struct call *call, const struct link_conf *link)
{
    int64_t n = candidate_prompt_tokens(call);
    return link->context_window == 0 || n + n / 10 <= link->context_window;
}

static const char *incapable(const struct call *call, const struct link_conf *link, bool is_same_dialect)
{
    if (call->has_tools && link->supports.tools == NO)
        return "no tools there";
    if (call->has_vision && link->supports.vision == NO)
        return "no images there";
    if (call->has_json_schema && link->supports.json_schema == NO)
        return "no JSON schema there";
    if (call->has_prefill && link->supports.prefill == NO)
        return "no prefill there";
    if (call->has_audio && !is_same_dialect)
        return "audio is not translated";
    if (call->n > 1 && !is_same_dialect)
        return "several choices are not translated";
    if (link->adjust == ADJUST_SKIP && link->max_output > 0 && call->max_tokens > link->max_output)
        return "max_tokens above its output limit";
    return NULL;
}

struct candidate candidate_of(const struct call *call, const struct link_conf *link, const struct link_conf *first,
                              bool is_same_dialect)
{
    if (link->provider->is_off)
        return (struct candidate){.skip = OUTCOME_SKIPPED_OFF, .why = "provider has no key"};
    if (call->state.n > 0 && link->provider != first->provider)
        return (struct candidate){.skip = OUTCOME_SKIPPED_STATE, .why = "stored state does not travel"};
    const char *why = incapable(call, link, is_same_dialect);
    if (why)
        return (struct candidate){.skip = OUTCOME_SKIPPED_INCAPABLE, .why = why};
    if (!fits_window(call, link))
        return (struct candidate){
            .skip = OUTCOME_SKIPPED_INCAPABLE, .why = "prompt above its window", .is_window = true};
    return (struct candidate){.skip = OUTCOME_OK, .why = ""};
}

bool candidate_is_stream(const struct call *call, const struct route_conf *route, const struct link_conf *link)
{
    if (call->is_stream)
        return true;
    if (route->upstream_stream == UPSTREAM_OFF || call->n > 1 || call->has_audio || call->needs_whole)
        return false;
    return route->upstream_stream == UPSTREAM_ON || link->supports.stream_usage != NO;
}

bool candidate_is_larger(const struct link_conf *failed, const struct link_conf *other)
{
    return failed->context_window > 0 && other->context_window > failed->context_window;
}

bool candidate_is_not_larger(const struct link_conf *failed, const struct link_conf *other)
{
    return other->context_window > 0 && other->context_window <= failed->context_window;
}
