/* A tree from the scan's notes. The scan has seen each byte and noted each value in the order of the text, which is the
 * order of yyjson's tree as well: a value is sixteen bytes there, an object or array is followed by what is in it and
 * knows the distance to what comes after. So each note becomes a value, and no byte of a plain string is looked at
 * again. What the scan does not vouch for (odd numbers, surrogate pairs, names with escapes, more levels than it
 * notes) is parsed. */
#include "codec/json_scan_impl.h"
#include "codec/json_string.h"
#include "codec/json_tree.h"

enum { BYTES_A_NOTE = 16 };

static void set(yyjson_val *v, uint8_t type, size_t n, const char *p)
{
    v->tag = (uint64_t)n << YYJSON_TAG_BIT | type;
    v->uni.str = p;
}

/* Its size, and the distance to what comes after. */
static void set_container(yyjson_val *v, const struct json_note *notes, uint32_t number, bool is_object)
{
    size_t size = 0;
    for (uint32_t i = number + 1; i < notes[number].next; i = notes[i].next)
        size++;
    set(v, is_object ? YYJSON_TYPE_OBJ : YYJSON_TYPE_ARR, is_object ? size / 2 : size, NULL);
    v->uni.ofs = (notes[number].next - number) * sizeof *v;
}

static void set_value(yyjson_val *v, const struct json_index *index, uint32_t number, struct arena *a)
{
    const struct json_note *n = &index->v[number];
    struct bytes raw = bytes_from(index->text + n->at, n->end - n->at);
    switch (raw.p[0]) {
    case '{':
    case '[':
        set_container(v, index->v, number, raw.p[0] == '{');
        break;
    case '"':
        raw = json_string_value(bytes_from(raw.p + 1, raw.n - 2), n->less > 0, a);
        set(v, YYJSON_TYPE_STR, raw.n, raw.p);
        break;
    case 't':
        set(v, YYJSON_TYPE_BOOL | YYJSON_SUBTYPE_TRUE, 0, NULL);
        break;
    case 'f':
        set(v, YYJSON_TYPE_BOOL | YYJSON_SUBTYPE_FALSE, 0, NULL);
        break;
    case 'n':
        set(v, YYJSON_TYPE_NULL, 0, NULL);
        break;
    default:
        set(v, YYJSON_TYPE_RAW, raw.n, raw.p);
    }
}

/* False: what is in some value was not noted. */
static bool is_all_noted(const struct json_index *index)
{
    for (uint32_t i = 0; i < index->n; i++)
        if (index->v[i].less != 0 && index->text[index->v[i].at] != '"')
            return false;
    return true;
}

bool json_notes_of(struct bytes text, unsigned max_depth, struct arena *arena, struct json_notes *out)
{
#ifndef RM_SCAN_SCALAR
    struct json_index *index = &out->index;
    struct json_scan scan;
    *index = (struct json_index){.v = out->few, .max = JSON_FEW_NOTES, .levels = JSON_LEVELS_MAX};
    if (text.n / BYTES_A_NOTE > JSON_FEW_NOTES && text.n <= UINT32_MAX) {
        index->max = (uint32_t)(text.n / BYTES_A_NOTE);
        index->v = arena_alloc_raw(arena, index->max * sizeof *index->v);
    }
    return json_scan_block(text, max_depth, NULL, 0, &scan, index) && index->is_strict && index->n > 0;
#else
    (void)text, (void)max_depth, (void)arena, (void)out;
    return false;
#endif
}

yyjson_val *json_tree_of_notes(const struct json_notes *notes, struct arena *arena)
{
    const struct json_index *index = &notes->index;
    if (!is_all_noted(index))
        return NULL;
    yyjson_val *v = arena_alloc_raw(arena, index->n * sizeof *v);
    for (uint32_t i = 0; i < index->n; i++)
        set_value(&v[i], index, i, arena);
    return v;
}

enum err json_tree_borrow(struct bytes text, unsigned max_depth, struct arena *arena, yyjson_val **root)
{
    struct json_notes notes;
    *root = json_notes_of(text, max_depth, arena, &notes) ? json_tree_of_notes(&notes, arena) : NULL;
    return *root != NULL ? ERR_OK : json_tree_parse(text, max_depth, arena, root);
}
