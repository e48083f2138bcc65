/* A head, as a request's and as a response's: a verdict on a whole head does not depend on what follows it, its parts
 * lie inside it and hold nothing that could break a line, and a cut head is never taken for a whole one. A head that is
 * known says what it says when it is read, whatever byte of it has changed. */
#include "fuzz.h"

#include "http/heads.h"

static void check_text(struct bytes text, struct bytes head)
{
    RM_ASSERT(fuzz_is_inside(text, head));
    for (size_t i = 0; i < text.n; i++)
        RM_ASSERT(text.p[i] != '\r' && text.p[i] != '\n' && text.p[i] != '\0');
}

static void check_framing(const struct head *h, enum head_kind kind)
{
    size_t n_length = fields_count(&h->fields, "content-length");
    bool is_chunked = fields_has(&h->fields, "transfer-encoding");
    if (kind == HEAD_REQUEST) {
        RM_ASSERT(n_length <= 1 && !(n_length == 1 && is_chunked));
        RM_ASSERT(h->framing == (is_chunked ? FRAMING_CHUNKED : n_length == 1 ? FRAMING_LENGTH : FRAMING_NONE));
        RM_ASSERT(h->minor == 0 || fields_count(&h->fields, "host") == 1);
    } else if (h->framing == FRAMING_UNTIL_CLOSE) {
        RM_ASSERT(!h->keep_alive);
    }
    if (h->framing == FRAMING_LENGTH && n_length == 1) {
        uint64_t length = 0;
        RM_ASSERT(bytes_to_u64(fields_get(&h->fields, "content-length"), &length) && length == h->content_length);
    }
}

static void check_head(const struct head *h, enum head_kind kind, const struct head_limits *limits, struct bytes text)
{
    RM_ASSERT(text.n <= limits->bytes && h->fields.n <= limits->fields);
    RM_ASSERT(bytes_ends_with(text, BYTES("\r\n\r\n")));
    for (size_t i = 0; i < h->fields.n; i++) {
        RM_ASSERT(h->fields.v[i].name.n > 0);
        check_text(h->fields.v[i].name, text);
        check_text(h->fields.v[i].value, text);
    }
    if (kind == HEAD_REQUEST) {
        RM_ASSERT(h->method.n > 0 && h->target.n > 0);
        check_text(h->target, text);
        if (!bytes_is(h->path, "/")) /* what an absolute target without a path means */
            check_text(h->path, text);
        check_text(h->query, text);
        check_text(h->host, text);
    } else {
        RM_ASSERT(h->status >= 100 && h->status <= 999);
    }
    check_framing(h, kind);
}

static void check_equal(const struct head *h, const struct head *other)
{
    RM_ASSERT(bytes_eq(h->method, other->method) && bytes_eq(h->target, other->target));
    RM_ASSERT(bytes_eq(h->path, other->path) && bytes_eq(h->query, other->query) && bytes_eq(h->host, other->host));
    RM_ASSERT(h->minor == other->minor && h->keep_alive == other->keep_alive);
    RM_ASSERT(h->framing == other->framing && h->content_length == other->content_length);
    RM_ASSERT(h->expects_continue == other->expects_continue);
    RM_ASSERT(h->fields.n == other->fields.n && h->fields.marks == other->fields.marks);
    for (size_t i = 0; i < h->fields.n; i++)
        RM_ASSERT(bytes_eq(h->fields.v[i].name, other->fields.v[i].name) &&
                  bytes_eq(h->fields.v[i].value, other->fields.v[i].value));
}

/* An empty line before a request is for the strict passes: what the quick one takes, they take as well. */
static void check_strictly(struct bytes text, const struct head *h, const struct head_limits *limits, struct arena *a)
{
    struct head_limits wider = {.bytes = limits->bytes + 2, .fields = limits->fields};
    struct buf odd = {0};
    struct head strict;
    size_t used = 0;
    const char *why = NULL;
    (void)buf_puts(&odd, "\r\n");
    (void)buf_put(&odd, text);
    RM_ASSERT(head_parse(buf_bytes(&odd), HEAD_REQUEST, false, &wider, a, &strict, &used, &why) == HEAD_OK);
    RM_ASSERT(used == text.n + 2);
    check_equal(h, &strict);
    buf_fini(&odd);
}

/* What is found of `in` is what is read of it. Says whether something is found. */
static bool check_found(struct heads *known, struct bytes in, const struct head_limits *limits)
{
    struct arena a = {0};
    struct head found, read;
    size_t used = 0, used_read = 0;
    const char *why = NULL;
    bool is_found = heads_find(known, in, limits, &a, &found, &used);
    if (is_found) {
        RM_ASSERT(head_parse(in, HEAD_REQUEST, false, limits, &a, &read, &used_read, &why) == HEAD_OK);
        RM_ASSERT(used == used_read);
        check_equal(&found, &read);
    }
    arena_fini(&a);
    return is_found;
}

static void check_known(struct bytes in, size_t used, const struct head *h, const struct head_limits *limits)
{
    struct heads *known = heads_new();
    struct rng rng = fuzz_rng(in, 2);
    struct buf changed = {0};
    heads_note(known, bytes_slice(in, 0, used), h);
    bool is_kept = heads_memo(known) != NULL;
    RM_ASSERT(check_found(known, in, limits) == is_kept);
    RM_ASSERT(!check_found(known, bytes_slice(in, 0, used - 1), limits));
    (void)buf_put(&changed, in);
    for (int i = 0; i < 32 && is_kept; i++) {
        char *at = changed.p + rng_below(&rng, (uint32_t)used), was = *at;
        *at = (char)(i % 2 == 0 ? '0' + rng_below(&rng, 10) : rng_below(&rng, 256));
        (void)check_found(known, buf_bytes(&changed), limits);
        *at = was;
    }
    buf_fini(&changed);
    heads_free(known);
}

static void run(struct bytes in, enum head_kind kind, const struct head_limits *limits, bool is_head_request)
{
    struct arena a = {0};
    struct head h, again;
    size_t used = 0, used_again = 0;
    const char *why = NULL;
    enum head_result r = head_parse(in, kind, is_head_request, limits, &a, &h, &used, &why);
    if (r == HEAD_BAD)
        RM_ASSERT(why != NULL);
    if (r == HEAD_OK) {
        struct bytes text = bytes_slice(in, 0, used);
        RM_ASSERT(used <= in.n);
        check_head(&h, kind, limits, text);
        if (kind == HEAD_REQUEST && !bytes_starts_with(text, BYTES("\r\n")))
            check_strictly(text, &h, limits, &a);
        if (kind == HEAD_REQUEST)
            check_known(in, used, &h, limits);
        RM_ASSERT(head_parse(text, kind, is_head_request, limits, &a, &again, &used_again, &why) == HEAD_OK);
        RM_ASSERT(used_again == used && again.framing == h.framing && again.fields.n == h.fields.n);
        struct rng rng = fuzz_rng(in, 1);
        for (int i = 0; i < 4; i++) {
            struct bytes cut = bytes_slice(in, 0, rng_below(&rng, (uint32_t)used));
            RM_ASSERT(head_parse(cut, kind, is_head_request, limits, &a, &again, &used_again, &why) == HEAD_MORE);
        }
    }
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct head_limits wide = {.bytes = 32768, .fields = 100}, narrow = {.bytes = 120, .fields = 3};
    struct bytes in = bytes_from(data, size);
    run(in, HEAD_REQUEST, &wide, false);
    run(in, HEAD_REQUEST, &narrow, false);
    run(in, HEAD_RESPONSE, &wide, false);
    run(in, HEAD_RESPONSE, &wide, true);
    run(in, HEAD_RESPONSE, &narrow, false);
    return 0;
}
