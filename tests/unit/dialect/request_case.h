/* What the request tests share: the two dialects as far as requests go, and one call of the builder. */
#ifndef RM_TESTS_REQUEST_CASE_H
#define RM_TESTS_REQUEST_CASE_H

#include "dialect/request_impl.h"

enum { DEPTH_MAX = 128 };

static const struct dialect chat = {.kind = DIALECT_OPENAI,
                                    .name = "openai",
                                    .read_call = openai_read_call,
                                    .parse = openai_parse,
                                    .render = openai_render};
static const struct dialect messages = {.kind = DIALECT_ANTHROPIC,
                                        .name = "anthropic",
                                        .read_call = anthropic_read_call,
                                        .parse = anthropic_parse,
                                        .render = anthropic_render};

struct built {
    struct arena arena;
    enum err err;
    const char *why;
    struct bytes body;
    struct buf adjusted;
};

static inline struct bytes joined(const struct pieces *p, struct arena *a)
{
    char *text = arena_alloc(a, p->n_bytes + 1);
    size_t at = 0;
    for (size_t i = 0; i < p->n; i++) {
        memcpy(text + at, p->v[i].p, p->v[i].n);
        at += p->v[i].n;
    }
    assert_int_equal(at, p->n_bytes);
    return bytes_from(text, at);
}

/* Its name as JSON text, as a snapshot writes it. */
static inline struct bytes model_as_json(const struct profile *p, struct arena *a)
{
    struct buf text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_string(&w, p->model);
    struct bytes json = arena_dup(a, buf_bytes(&text));
    buf_fini(&text);
    return json;
}

/* The same body comes of a call whose reading has kept nothing, for a target whose name is JSON already. */
static inline void expect_same_anew(const struct built *b, const struct dialect *client, const struct dialect *target,
                                    struct bytes body, const struct call *call, const struct profile *p)
{
    struct call anew = *call;
    struct pieces pieces;
    struct built other = {.why = ""};
    struct profile known = *p;
    anew.members = NULL;
    known.model_json = model_as_json(p, &other.arena);
    other.err = dialect_build_body(client, target, body, &anew, &known, DEPTH_MAX, &other.arena, &pieces,
                                   &other.adjusted, &other.why);
    assert_int_equal(other.err, b->err);
    assert_true(bytes_eq(buf_bytes(&other.adjusted), buf_bytes(&b->adjusted)));
    if (b->err == ERR_OK)
        assert_true(bytes_eq(joined(&pieces, &other.arena), b->body));
    buf_fini(&other.adjusted);
    arena_fini(&other.arena);
}

static inline void built_init(struct built *b, const struct dialect *client, const struct dialect *target,
                              struct bytes body, const struct profile *p)
{
    struct call call;
    struct pieces pieces;
    *b = (struct built){.why = ""};
    b->err = dialect_read_call(client, body, DEPTH_MAX, &b->arena, &call, &b->why);
    if (b->err != ERR_OK)
        return;
    assert_non_null(call.members);
    b->err = dialect_build_body(client, target, body, &call, p, DEPTH_MAX, &b->arena, &pieces, &b->adjusted, &b->why);
    if (b->err == ERR_OK)
        b->body = joined(&pieces, &b->arena);
    expect_same_anew(b, client, target, body, &call, p);
}

static inline void built_fini(struct built *b)
{
    buf_fini(&b->adjusted);
    arena_fini(&b->arena);
}

#endif
