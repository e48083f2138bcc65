/* Any bytes as a client's request, in both dialects and to both: what is accepted has a model, and every body built
 * from it is JSON that names the target's model, is the same when built again with nothing kept of the reading, and
 * holds no cache marker where those are to be withheld. */
#include "fuzz.h"

#include "codec/json_tree.h"
#include "dialect/dialect.h"

enum { DEPTH_MAX = 64 };

struct built {
    enum err e;
    struct buf body, adjusted;
    const char *why;
};

static void build(struct bytes in, const struct dialect *client, const struct dialect *target, const struct call *call,
                  const struct profile *p, struct built *out)
{
    struct arena a = {0};
    struct pieces pieces = {0};
    *out = (struct built){0};
    out->e = dialect_build_body(client, target, in, call, p, DEPTH_MAX, &a, &pieces, &out->adjusted, &out->why);
    if (out->e == ERR_OK) {
        for (size_t i = 0; i < pieces.n; i++)
            buf_put(&out->body, pieces.v[i]);
        RM_ASSERT(out->body.n == pieces.n_bytes);
    }
    out->why = out->why == NULL ? NULL : "told"; /* it may lie in the arena */
    arena_fini(&a);
}

static void built_fini(struct built *b)
{
    buf_fini(&b->body);
    buf_fini(&b->adjusted);
}

/* What is withheld is nowhere left. */
static void check_withheld(struct bytes body, const struct dialect *target)
{
    struct arena a = {0};
    struct call call = {0};
    const char *why = NULL;
    if (strcmp(target->name, "anthropic") == 0 && dialect_read_call(target, body, 4096, &a, &call, &why) == ERR_OK)
        RM_ASSERT(!call.has_cache_markers);
    arena_fini(&a);
}

static void check_build(struct bytes in, const struct dialect *client, const struct dialect *target,
                        const struct call *call, const struct profile *p, bool is_json)
{
    struct built one, two;
    struct call anew = *call; /* as if nothing had been kept of its reading */
    anew.members = NULL;
    build(in, client, target, call, p, &one);
    build(in, client, target, &anew, p, &two);
    RM_ASSERT(one.e == two.e && bytes_eq(buf_bytes(&one.body), buf_bytes(&two.body)));
    RM_ASSERT(bytes_eq(buf_bytes(&one.adjusted), buf_bytes(&two.adjusted)));
    RM_ASSERT(one.e == ERR_OK || one.why != NULL);
    for (size_t i = 0; i < one.adjusted.n; i++) /* it becomes a header's value */
        RM_ASSERT((unsigned char)one.adjusted.p[i] >= 0x20 && one.adjusted.p[i] != 0x7f);
    /* A same-dialect body carries the client's own mistakes in what nobody here reads. */
    if (one.e == ERR_OK && (is_json || client != target)) {
        struct arena a = {0};
        yyjson_val *root = NULL;
        RM_ASSERT(json_tree_parse(buf_bytes(&one.body), 4096, &a, &root) == ERR_OK && yyjson_is_obj(root));
        RM_ASSERT(bytes_eq(json_tree_str(root, "model"), p->model));
        if (p->is_stream)
            RM_ASSERT(json_tree_bool(root, "stream", false));
        arena_fini(&a);
    }
    if (one.e == ERR_OK && p->withholds_cache)
        check_withheld(buf_bytes(&one.body), target);
    built_fini(&one);
    built_fini(&two);
}

static void check_call(struct bytes in, const struct dialect *client, const struct dialect *const *targets, size_t n)
{
    struct arena a = {0};
    struct call call = {0};
    const char *why = NULL;
    enum err e = dialect_read_call(client, in, DEPTH_MAX, &a, &call, &why);
    RM_ASSERT(e == ERR_OK || why != NULL);
    if (e == ERR_OK) {
        RM_ASSERT(call.model.n > 0 && call.n >= 1 && call.max_tokens >= -1);
        struct arena tree = {0};
        yyjson_val *root;
        bool is_json = json_tree_parse(in, 4096, &tree, &root) == ERR_OK;
        arena_fini(&tree);
        struct rng r = fuzz_rng(in, 2);
        static const char *const vendors[] = {"openai", "anthropic", "together", "generic"};
        for (size_t i = 0; i < n; i++) {
            struct profile p = {.model = BYTES("target-1"),
                                .vendor = bytes_of(vendors[rng_below(&r, RM_COUNTOF(vendors))]),
                                .is_stream = rng_below(&r, 2) == 0,
                                .adds_usage = rng_below(&r, 2) == 0,
                                .quirks = (uint8_t)(rng_below(&r, 2) ? rng_below(&r, 64) : 0),
                                .max_output = (int64_t)rng_below(&r, 2) * 100,
                                .cache_ttl_s = (int64_t)rng_below(&r, 3) * 300,
                                .withholds_cache = rng_below(&r, 2) == 0,
                                .takes_retention = rng_below(&r, 2) == 0,
                                .cache_key = BYTES("rm-0123456789abcdef")};
            check_build(in, client, targets[i], &call, &p, is_json);
        }
    }
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_from(data, size);
    const struct dialect *dialects[] = {dialect_by_name(BYTES("openai")), dialect_by_name(BYTES("anthropic"))};
    for (size_t i = 0; i < RM_COUNTOF(dialects); i++)
        check_call(in, dialects[i], dialects, RM_COUNTOF(dialects));
    return 0;
}
