#include "dialect/mosaic.h"

struct mosaic *mosaic_get(const struct mosaic *object, const char *name)
{
    if (object == NULL || object->kind != MOSAIC_OBJECT)
        return NULL;
    struct mosaic *m = object->first;
    while (m != NULL && !bytes_is(m->name, name))
        m = m->next;
    return m;
}

static struct mosaic *add(struct mosaic *to, struct mosaic_store *s)
{
    struct mosaic *m = ARENA_NEW(&s->arena, struct mosaic);
    s->n_changes++;
    if (to->last != NULL)
        to->last->next = m;
    else
        to->first = m;
    to->last = m;
    to->n++;
    return m;
}

static struct mosaic *member_or_new(struct mosaic *object, struct bytes name, size_t max, struct mosaic_store *s)
{
    RM_ASSERT(object->kind == MOSAIC_OBJECT);
    for (struct mosaic *m = object->first; m != NULL; m = m->next)
        if (bytes_eq(m->name, name))
            return m;
    if (object->n >= max)
        return NULL;
    struct mosaic *m = add(object, s);
    m->name = arena_dup(&s->arena, name);
    return m;
}

struct mosaic *mosaic_member(struct mosaic *object, struct bytes name, struct mosaic_store *s)
{
    return member_or_new(object, name, MOSAIC_MEMBERS_MAX, s);
}

struct mosaic *mosaic_need(struct mosaic *object, const char *name, struct mosaic_store *s)
{
    return member_or_new(object, bytes_of(name), SIZE_MAX, s);
}

void mosaic_drop(struct mosaic *object, const char *name)
{
    struct mosaic **link = &object->first, *before = NULL;
    while (*link != NULL && !bytes_is((*link)->name, name)) {
        before = *link;
        link = &before->next;
    }
    if (*link == NULL)
        return;
    if (object->last == *link)
        object->last = before;
    *link = (*link)->next;
    object->n--;
}

struct mosaic *mosaic_item(struct mosaic *array, struct mosaic_store *s)
{
    RM_ASSERT(array->kind == MOSAIC_ARRAY);
    return add(array, s);
}

void mosaic_become(struct mosaic *m, enum mosaic_kind kind, struct mosaic_store *s)
{
    if (m->kind == kind)
        return;
    *m = (struct mosaic){.kind = kind, .name = m->name, .at = m->at, .next = m->next};
    s->n_changes++;
}

/* Most members come again and again with the same value: nothing grows then. */
void mosaic_set_raw(struct mosaic *m, struct bytes json, struct mosaic_store *s)
{
    mosaic_become(m, MOSAIC_RAW, s);
    if (bytes_eq(m->raw, json))
        return;
    s->n_changes++;
    if (m->cap < json.n) {
        m->cap = json.n + (m->raw.p != NULL ? json.n / 2 : 0);
        m->raw.p = arena_alloc(&s->arena, m->cap);
    }
    memcpy((char *)(uintptr_t)m->raw.p, json.p, json.n);
    m->raw.n = json.n;
}

void mosaic_set_text(struct mosaic *m, struct bytes text, struct mosaic_store *s)
{
    mosaic_become(m, MOSAIC_TEXT, s);
    s->n_changes++;
    m->text = (struct rope){0};
    rope_put(&m->text, &s->arena, text);
}

static void grow(struct rope *r, struct bytes text, struct mosaic_store *s)
{
    if (text.n == 0)
        return;
    s->n_changes++;
    s->grown = r->n > 0 ? r : NULL;
    rope_put(r, &s->arena, text);
}

void mosaic_run_on(struct mosaic *m, struct bytes text, struct mosaic_store *s)
{
    mosaic_become(m, MOSAIC_TEXT, s);
    grow(&m->text, text, s);
}

void mosaic_gather(struct mosaic *m, struct bytes text, struct mosaic_store *s)
{
    RM_ASSERT(m->kind == MOSAIC_OBJECT);
    grow(&m->text, text, s);
}

bool mosaic_is_empty(const struct mosaic *m)
{
    if (m == NULL)
        return true;
    if (m->kind == MOSAIC_TEXT)
        return m->text.n == 0;
    if (m->kind != MOSAIC_RAW)
        return m->first == NULL;
    return m->raw.p == NULL || bytes_is(m->raw, "null") || bytes_is(m->raw, "\"\"") || bytes_is(m->raw, "[]") ||
           bytes_is(m->raw, "{}");
}

bool mosaic_is_raw(const struct mosaic *m, struct bytes json)
{
    return m != NULL && m->kind == MOSAIC_RAW && bytes_eq(m->raw, json);
}

bool mosaic_is(const struct mosaic *m, const char *text)
{
    return m != NULL && m->kind == MOSAIC_RAW && m->raw.n >= 2 && m->raw.p[0] == '"' &&
           bytes_is(bytes_slice(m->raw, 1, m->raw.n - 1), text);
}

void mosaic_write(struct json_writer *w, const struct mosaic *m, struct mosaic_store *s)
{
    if (m->kind == MOSAIC_RAW) {
        jw_raw(w, m->raw.p != NULL ? m->raw : BYTES("null"));
        return;
    }
    if (m->kind == MOSAIC_TEXT) {
        jw_string(w, rope_text(&m->text, &s->arena));
        return;
    }
    if (m->kind == MOSAIC_ARRAY)
        jw_array(w);
    else
        jw_object(w);
    for (const struct mosaic *i = m->first; i != NULL; i = i->next) {
        if (m->kind == MOSAIC_OBJECT)
            jw_key_bytes(w, i->name);
        mosaic_write(w, i, s);
    }
    jw_end(w);
}
