/* The scan against a full parser: an object that yyjson takes is taken by the scan too, with ranges that hold the same
 * values, or refused for a duplicate or for its depth, where there is one. And a splice leaves an object that the scan
 * takes and that holds what was written. */
#include "fuzz.h"

#include "base/buf.h"
#include "codec/json_splice.h"
#include "codec/json_tree.h"

enum { N_WANTED = 4, DEPTH_MAX = 12 };
static const char *const wanted[N_WANTED] = {"model", "m", "stream", "a"};

static unsigned depth_of(yyjson_val *v)
{
    unsigned deepest = 0, d;
    size_t i, n;
    yyjson_val *key, *item;
    if (yyjson_is_obj(v)) {
        yyjson_obj_foreach(v, i, n, key, item) if ((d = depth_of(item)) > deepest) deepest = d;
        return deepest + 1;
    }
    if (yyjson_is_arr(v)) {
        yyjson_arr_foreach(v, i, n, item) if ((d = depth_of(item)) > deepest) deepest = d;
        return deepest + 1;
    }
    return 0;
}

static size_t count_of(yyjson_val *object, const char *name)
{
    size_t i, n, count = 0;
    yyjson_val *key, *item;
    yyjson_obj_foreach(object, i, n, key, item) count += bytes_is(json_tree_bytes(key), name);
    return count;
}

static bool has_duplicate(yyjson_val *object)
{
    for (size_t i = 0; i < N_WANTED; i++)
        if (count_of(object, wanted[i]) > 1)
            return true;
    return false;
}

static void check_member(struct bytes text, const struct json_member *m, yyjson_val *object, struct arena *a)
{
    yyjson_val *want = yyjson_obj_get(object, m->name), *got = NULL;
    RM_ASSERT((m->type == JSON_ABSENT) == (want == NULL));
    if (want == NULL)
        return;
    RM_ASSERT(m->name_at < m->value_at && m->value_at < m->value_end && m->value_end < text.n);
    RM_ASSERT(json_tree_parse(json_member_raw(text, m), DEPTH_MAX, a, &got) == ERR_OK);
    RM_ASSERT(bytes_eq(json_tree_text(got, a), json_tree_text(want, a)));
    RM_ASSERT((m->type == JSON_STRING) == yyjson_is_str(want) && (m->type == JSON_OBJECT) == yyjson_is_obj(want));
    RM_ASSERT((m->type == JSON_ARRAY) == yyjson_is_arr(want) && (m->type == JSON_NULL) == yyjson_is_null(want));
    RM_ASSERT((m->type == JSON_TRUE) == yyjson_is_true(want) && (m->type == JSON_FALSE) == yyjson_is_false(want));
}

/* Changes, removes or inserts each wanted member by chance. */
static void check_splice(struct bytes text, const struct json_scan *scan, const struct json_member *m,
                         yyjson_val *object, struct arena *a)
{
    struct rng r = fuzz_rng(text, 1);
    struct json_edit edits[N_WANTED];
    size_t n = 0;
    for (size_t i = 0; i < N_WANTED; i++)
        if (rng_below(&r, 3) > 0)
            edits[n++] = (struct json_edit){
                .name = wanted[i], .found = &m[i], .value = BYTES("[\"new\"]"), .remove = rng_below(&r, 2) == 0};
    struct pieces p;
    json_splice(text, scan, edits, n, a, &p);
    struct buf out = {0};
    for (size_t i = 0; i < p.n; i++)
        buf_put(&out, p.v[i]);
    RM_ASSERT(out.n == p.n_bytes);

    struct json_member again[N_WANTED];
    struct json_scan ignored;
    for (size_t i = 0; i < N_WANTED; i++)
        again[i] = (struct json_member){.name = wanted[i]};
    RM_ASSERT(json_scan(buf_bytes(&out), DEPTH_MAX, again, N_WANTED, &ignored) == ERR_OK);
    for (size_t i = 0; i < n; i++) {
        const struct json_member *now = &again[edits[i].found - m];
        if (edits[i].remove)
            RM_ASSERT(now->type == JSON_ABSENT);
        else
            RM_ASSERT(bytes_eq(json_member_raw(buf_bytes(&out), now), BYTES("[\"new\"]")));
    }
    yyjson_val *root = NULL;
    if (object != NULL)
        RM_ASSERT(json_tree_parse(buf_bytes(&out), DEPTH_MAX, a, &root) == ERR_OK);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_from(data, size);
    struct arena a = {0};
    struct json_member m[N_WANTED];
    for (size_t i = 0; i < N_WANTED; i++)
        m[i] = (struct json_member){.name = wanted[i]};
    struct json_scan scan;
    enum err e = json_scan(text, DEPTH_MAX, m, N_WANTED, &scan);
    RM_ASSERT(scan.error_at <= size && (e == ERR_OK) == (scan.error == NULL));

    yyjson_val *root = NULL;
    bool is_json = json_tree_parse(text, 4096, &a, &root) == ERR_OK;
    bool is_object = is_json && yyjson_is_obj(root);
    if (is_object && e != ERR_OK) {
        RM_ASSERT(e == ERR_DUPLICATE || e == ERR_LIMIT);
        RM_ASSERT(e == ERR_DUPLICATE ? has_duplicate(root) : depth_of(root) > DEPTH_MAX);
    }
    if (is_object && e == ERR_OK) {
        RM_ASSERT(!has_duplicate(root) && depth_of(root) <= DEPTH_MAX);
        for (size_t i = 0; i < N_WANTED; i++)
            check_member(text, &m[i], root, &a);
    }
    if (is_json && !is_object)
        RM_ASSERT(e == ERR_SYNTAX);
    if (e == ERR_OK)
        check_splice(text, &scan, m, is_object ? root : NULL, &a);
    arena_fini(&a);
    return 0;
}
