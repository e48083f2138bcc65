/* A provider's prompt cache: which part of a prompt it has seen before. A prompt is cut into blocks; each has the hash
 * of everything up to its end, so that equal hashes are equal prefixes. Pure: the time is handed in.
 *
 * Anthropic: blocks are the request's own (tools, then system, then messages), and a prefix is written and read at the
 * blocks with a cache_control marker; 20 blocks before one are looked at for an older entry. OpenAI: blocks of 128
 * tokens, every one from min_tokens on is written and read without being asked. A prefix can be read once the answer
 * that wrote it has begun, and lives `ttl` from its last use. */
#ifndef RM_LAB_MOCK_CACHE_H
#define RM_LAB_MOCK_CACHE_H

#include "codec/json_tree.h"
#include "lab/mock_conf.h"

enum cache_marker { MARKER_NONE, MARKER_5M, MARKER_1H };
struct cache_block {
    uint64_t hash;   /* of all up to its end */
    uint64_t tokens; /* up to its end: one for four bytes */
    enum cache_marker marker;
};
struct cache_prompt {
    struct cache_block *v; /* in the arena */
    size_t n;
};

struct cache_use { /* tokens */
    uint64_t read, written_5m, written_1h;
};

struct mock_cache;

struct mock_cache *mock_cache_new(const struct mock_cache_conf *c);
void mock_cache_free(struct mock_cache *c); /* NULL too */
void mock_cache_clear(struct mock_cache *c);

/* The blocks of a chat request's body. */
void cache_prompt_read(yyjson_val *root, enum shape_dialect d, struct arena *arena, struct cache_prompt *out);
/* What of the prompt is read and written at now_us, in a request whose answer begins at begins_us. With `fails` nothing
 * is written: the provider gave no answer. */
void mock_cache_use(struct mock_cache *c, enum shape_dialect d, const struct cache_prompt *p, uint64_t now_us,
                    uint64_t begins_us, bool fails, struct cache_use *out);

#endif
