#include "model/prompt.h"

static unsigned needs_of(const struct call *c)
{
    return (c->has_tools ? NEED_TOOLS : 0) | (c->has_vision ? NEED_VISION : 0) |
           (c->has_json_schema ? NEED_JSON_SCHEMA : 0) | (c->has_audio ? NEED_AUDIO : 0) |
           (c->needs_whole ? NEED_WHOLE : 0) | (c->has_prefill ? NEED_PREFILL : 0) | (c->state.n > 0 ? NEED_STATE : 0) |
           (c->n > 1 ? NEED_CHOICES : 0) | (c->has_head_marker ? NEED_HEAD_CACHED : 0);
}

/* What a conversation is known by where it does not say. */
static uint64_t own_key(const struct call *c)
{
    return c->talk_hash != 0 ? c->talk_hash : c->prefix_hash;
}

struct prompt_record prompt_of_call(const struct call *c, int64_t ttl_s, uint64_t affinity_key)
{
    return (struct prompt_record){.is_known = true,
                                  .talk_hash = c->talk_hash,
                                  .head_hash = c->head_hash,
                                  .cache_hash = c->cache_hash,
                                  .head_bytes = (int64_t)c->head_bytes,
                                  .cache_bytes = (int64_t)(ttl_s <= 0             ? 0
                                                           : c->has_cache_markers ? c->cache_bytes
                                                                                  : c->prompt_bytes),
                                  .cache_ttl_s = ttl_s > 0 ? ttl_s : 0,
                                  .affinity_key = affinity_key == own_key(c) ? 0 : affinity_key,
                                  .needs = needs_of(c),
                                  .routing = ""};
}

void prompt_to_call(const struct prompt_record *p, struct call *c)
{
    c->talk_hash = p->talk_hash;
    c->head_hash = p->head_hash;
    c->cache_hash = p->cache_hash;
    c->head_bytes = p->head_bytes > 0 ? (uint64_t)p->head_bytes : 0;
    c->cache_bytes = p->cache_bytes > 0 ? (uint64_t)p->cache_bytes : 0;
    c->has_tools = (p->needs & NEED_TOOLS) != 0;
    c->has_vision = (p->needs & NEED_VISION) != 0;
    c->has_json_schema = (p->needs & NEED_JSON_SCHEMA) != 0;
    c->has_audio = (p->needs & NEED_AUDIO) != 0;
    c->needs_whole = (p->needs & NEED_WHOLE) != 0;
    c->has_prefill = (p->needs & NEED_PREFILL) != 0;
    c->state = (p->needs & NEED_STATE) != 0 ? BYTES("state") : BYTES("");
    c->n = (p->needs & NEED_CHOICES) != 0 ? 2 : 1;
    c->has_head_marker = (p->needs & NEED_HEAD_CACHED) != 0;
}
