#include "dialect/collect.h"

#include "base/check.h"
#include "dialect/dialect.h"

/* The decoder keeps the limit of the settings, which is lower. */
enum { COLLECT_DEPTH = 4096 };

void collector_init(struct collector *c, const struct dialect *dialect, const struct encoder_options *o)
{
    RM_ASSERT(dialect != NULL && dialect->collector != NULL);
    *c = (struct collector){.dialect = dialect, .o = *o, .answer = {.kind = MOSAIC_OBJECT}};
    arena_init(&c->keep.arena);
    arena_init(&c->scratch);
    arena_reserve(&c->scratch, 2048); /* no malloc for a small event */
    c->clean = arena_mark(&c->scratch);
}

void collector_fini(struct collector *c)
{
    arena_fini(&c->keep.arena);
    arena_fini(&c->scratch);
    c->answer = (struct mosaic){.kind = MOSAIC_OBJECT};
}

void collector_event(struct collector *c, struct bytes name, struct bytes data)
{
    yyjson_val *root;
    RM_ASSERT(!c->is_ended);
    arena_reset(&c->scratch, c->clean);
    c->keep.n_changes = 0;
    c->keep.grown = NULL;
    if (json_tree_parse(bytes_trim(data), COLLECT_DEPTH, &c->scratch, &root) == ERR_OK && yyjson_is_obj(root))
        c->dialect->collector->event(c, name, root);
    c->running = c->keep.n_changes == 1 ? c->keep.grown : NULL;
}

/* The answer is now what it was before the last event, but that a text is longer: the same tree would find its way to
 * the same text again, and change nothing else. */
bool collector_more(struct collector *c, struct bytes text)
{
    RM_ASSERT(!c->is_ended);
    if (c->running == NULL)
        return false;
    rope_put(c->running, &c->keep.arena, text);
    return true;
}

void collector_end(struct collector *c, struct buf *out)
{
    struct json_writer w;
    if (c->is_ended)
        return;
    c->is_ended = true;
    arena_reset(&c->scratch, c->clean);
    c->dialect->collector->end(c);
    jw_init(&w, out);
    mosaic_write(&w, &c->answer, &c->keep);
}

size_t collector_bytes(const struct collector *c)
{
    return c->keep.arena.n_bytes;
}

static bool says_nothing(yyjson_val *v)
{
    return v == NULL || yyjson_is_null(v) || (yyjson_is_str(v) && yyjson_get_len(v) == 0) ||
           (yyjson_is_ctn(v) && yyjson_get_len(v) == 0);
}

void collector_put(struct collector *c, struct mosaic *object, struct bytes name, yyjson_val *v)
{
    struct mosaic *m = mosaic_member(object, name, &c->keep);
    bool is_new = m != NULL && m->kind == MOSAIC_RAW && m->raw.p == NULL;
    if (m != NULL && (is_new || !says_nothing(v)))
        mosaic_set_raw(m, json_tree_text(v, &c->scratch), &c->keep);
}

void collector_default(struct collector *c, struct mosaic *object, const char *name, struct bytes text)
{
    struct mosaic *m = mosaic_need(object, name, &c->keep);
    if (mosaic_is_empty(m))
        mosaic_set_text(m, text, &c->keep);
}
