/* The scan in blocks against a full parser and against the scan byte by byte, at every alignment: blanks before the
 * text move it through the 64 places of a block, and the buffer ends with the text. An object that yyjson takes is
 * taken, with ranges that hold the same values, or handed over where the scan has its reasons (a name that stands twice
 * or has escapes, nested too deep); what is taken at one place is taken at all, in the same places, whether or not
 * forms of objects are known; what is taken at all, the scan byte by byte takes, in the same places. */
#include "fuzz.h"

#include "codec/json_scan_impl.h"
#include "codec/json_tree.h"

#include <stdlib.h>

enum { N_WANTED = 3, DEPTH_MAX = 12, NOTES = 512, LEVELS = 6, CHECKED = 64, ALIGNMENTS = 64 };
static const char *const wanted[N_WANTED] = {"model", "m", "messages"};

static const struct json_form forms[] = {{"{\"role\":", ",\"content\":", 8, 1, 7, 11, 1, 10},
                                         {"{\"role\": ", ", \"content\": ", 9, 1, 7, 13, 2, 11}};

struct outcome {
    bool is_taken;
    struct json_scan scan;
    struct json_member m[N_WANTED];
    struct json_note notes[NOTES];
    struct json_index index;
};

static void prepare(struct outcome *o)
{
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < N_WANTED; i++)
        o->m[i].name = wanted[i];
    o->index = (struct json_index){.v = o->notes, .max = NOTES, .levels = LEVELS};
}

static void scan_at(struct bytes text, size_t blanks, struct outcome *o)
{
    char *copy = malloc(blanks + text.n + 1);
    RM_ASSERT(copy != NULL);
    memset(copy, ' ', blanks + 1);
    memcpy(copy + 1 + blanks, text.p, text.n);
    prepare(o);
    if (blanks > 0) { /* nobody sees that forms are known */
        o->index.forms = forms;
        o->index.n_forms = RM_COUNTOF(forms);
    }
    o->is_taken =
        json_scan_block(bytes_from(copy + 1, blanks + text.n), DEPTH_MAX, o->m, N_WANTED, &o->scan, &o->index);
    free(copy);
}

static void expect_equal(const struct outcome *a, const struct outcome *b, size_t blanks)
{
    RM_ASSERT(a->scan.open_at + blanks == b->scan.open_at && a->scan.is_empty == b->scan.is_empty);
    RM_ASSERT(a->scan.error == NULL && b->scan.error == NULL);
    for (size_t i = 0; i < N_WANTED; i++) {
        RM_ASSERT(a->m[i].type == b->m[i].type);
        if (a->m[i].type == JSON_ABSENT)
            continue;
        RM_ASSERT(a->m[i].name_at + blanks == b->m[i].name_at);
        RM_ASSERT(a->m[i].value_at + blanks == b->m[i].value_at);
        RM_ASSERT(a->m[i].value_end + blanks == b->m[i].value_end);
    }
}

static void check_found(const struct outcome *o)
{
    for (size_t i = 0; i < N_WANTED; i++)
        RM_ASSERT((o->index.found >> i & 1) == (o->m[i].type != JSON_ABSENT));
}

/* A note says what a value of its own says to the tree. */
static void check_note(struct bytes text, const struct json_note *n, uint32_t number, uint32_t n_notes)
{
    RM_ASSERT(n->at < n->end && n->end <= text.n && n->next > number && n->next <= n_notes);
    struct arena a = {0};
    yyjson_val *v = NULL;
    struct bytes raw = bytes_slice(text, n->at, n->end);
    enum err e = json_tree_parse(raw, 4096, &a, &v); /* it may hold a bad number or half a surrogate pair */
    if (raw.p[0] == '"')
        RM_ASSERT(raw.n >= 2 && raw.p[raw.n - 1] == '"' && n->less <= raw.n - 2);
    if (raw.p[0] == '"' && e == ERR_OK)
        RM_ASSERT(json_tree_bytes(v).n == raw.n - 2 - n->less);
    arena_fini(&a);
}

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

/* Whether a name occurs twice that may be wanted. */
static bool has_duplicate(yyjson_val *object)
{
    size_t i, n, count[N_WANTED] = {0};
    yyjson_val *key, *item;
    yyjson_obj_foreach(object, i, n, key,
                       item) for (size_t k = 0; k < N_WANTED;
                                  k++) if (bytes_is(json_tree_bytes(key), wanted[k]) && ++count[k] > 1) return true;
    return false;
}

static bool has_slash(struct bytes text)
{
    return bytes_find_byte(text, '\\') != SIZE_MAX;
}

static void check_parsed(struct bytes text, const struct outcome *o, yyjson_val *object, struct arena *a)
{
    if (!o->is_taken) {
        RM_ASSERT(has_duplicate(object) || depth_of(object) > DEPTH_MAX || has_slash(text));
        return;
    }
    RM_ASSERT(!has_duplicate(object) && depth_of(object) <= DEPTH_MAX);
    for (size_t i = 0; i < N_WANTED; i++) {
        yyjson_val *want = yyjson_obj_get(object, wanted[i]), *got = NULL;
        RM_ASSERT((o->m[i].type == JSON_ABSENT) == (want == NULL));
        if (want == NULL)
            continue;
        RM_ASSERT(json_tree_parse(json_member_raw(text, &o->m[i]), DEPTH_MAX, a, &got) == ERR_OK);
        RM_ASSERT(bytes_eq(json_tree_text(got, a), json_tree_text(want, a)));
    }
}

/* A borrowed tree holds what the parsed one does, or neither is there. */
static void check_borrowed(struct bytes text)
{
    struct arena a = {0};
    yyjson_val *borrowed = NULL, *parsed = NULL;
    enum err e = json_tree_borrow(text, DEPTH_MAX, &a, &borrowed);
    RM_ASSERT(json_tree_parse(text, DEPTH_MAX, &a, &parsed) == e);
    if (e == ERR_OK) {
        RM_ASSERT(yyjson_equals(borrowed, parsed));
        RM_ASSERT(bytes_eq(json_tree_text(borrowed, &a), json_tree_text(parsed, &a)));
    }
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_from(data, size);
    struct outcome first, scalar, moved;
    struct arena a = {0};
    yyjson_val *root = NULL;
    check_borrowed(text);
    scan_at(text, 0, &first);
    prepare(&scalar);
    enum err e = json_scan_scalar(text, DEPTH_MAX, scalar.m, N_WANTED, &scalar.scan);
    if (first.is_taken) {
        RM_ASSERT(e == ERR_OK);
        expect_equal(&first, &scalar, 0);
        check_found(&first);
        for (uint32_t i = 0; i < first.index.n && i < CHECKED; i++)
            check_note(text, &first.notes[i], i, first.index.n);
    } else if (e == ERR_OK) {
        RM_ASSERT(has_slash(text)); /* escapes in a name: the only thing that is handed over and fine */
    }
    for (size_t blanks = 1; blanks < ALIGNMENTS; blanks++) {
        scan_at(text, blanks, &moved);
        RM_ASSERT(moved.is_taken == first.is_taken);
        if (!first.is_taken)
            continue;
        expect_equal(&first, &moved, blanks);
        check_found(&moved);
        RM_ASSERT(first.index.n == moved.index.n);
        RM_ASSERT(first.index.is_strict == moved.index.is_strict);
        for (uint32_t i = 0; i < first.index.n; i++)
            RM_ASSERT(first.notes[i].at + blanks == moved.notes[i].at && first.notes[i].next == moved.notes[i].next &&
                      first.notes[i].end + blanks == moved.notes[i].end && first.notes[i].less == moved.notes[i].less);
    }
    bool is_tree = json_tree_parse(text, 4096, &a, &root) == ERR_OK;
    RM_ASSERT(is_tree || !first.is_taken || first.index.n == 0 || !first.index.is_strict);
    if (is_tree) {
        if (yyjson_is_obj(root))
            check_parsed(text, &first, root, &a);
        else
            RM_ASSERT(!first.is_taken);
    }
    arena_fini(&a);
    return 0;
}
