/*      POST /v1/chat/completions HTTP/1.1 … Content-Length: 2048 … CRLF CRLF
 *      |------------ the same --------------------------|----|-- the same --|
 *                                                       at   at + n_digits
 *
 * A head is known if it has as many bytes as one that is kept, digits where that has its Content-Length's, and all
 * other bytes the same. Then all that head_parse says of it is the same too, but for the length itself.
 *
 * Other clients' credentials are among the bytes that a head is held against. So all of them are compared, whatever the
 * first ones say: how long it takes tells nothing but whether it was the same.
 *
 * They stay in memory for it, so a server at rest forgets them (server_rest).
 *
 * A client whose heads differ each time (a trace's id) would push out all others: of the heads that are not known only
 * every eighth is kept. */
#include "http/heads.h"

#include "base/mem.h"

enum { KEPT_MAX = 4, NOTED_EVERY = 8, TEXT_MAX = 1024, FIELDS_MAX = 32 };

struct kept {
    size_t n, at, n_digits;
    struct head_memo memo;
    struct head head; /* views into `text`, fields in `fields` */
    struct field fields[FIELDS_MAX];
    char text[TEXT_MAX];
};
struct heads {
    struct kept *kept[KEPT_MAX]; /* about the last used first; NULL = none from here on */
    struct kept *last;           /* found or kept by the last call, or NULL */
    unsigned n_unknown;
};

struct heads *heads_new(void)
{
    return mem_zalloc(sizeof(struct heads));
}

void heads_forget(struct heads *h)
{
    for (size_t i = 0; i < KEPT_MAX && h->kept[i] != NULL; i++) {
        explicit_bzero(h->kept[i], sizeof *h->kept[i]);
        mem_free(h->kept[i]);
        h->kept[i] = NULL;
    }
    h->last = NULL;
    h->n_unknown = 0;
}

void heads_free(struct heads *h)
{
    if (h != NULL)
        heads_forget(h);
    mem_free(h);
}

struct head_memo *heads_memo(struct heads *h)
{
    return h->last != NULL ? &h->last->memo : NULL;
}

/* ---- looking ---- */

typedef uint64_t vec __attribute__((vector_size(16)));

static vec differ_at(const char *a, const char *b)
{
    vec x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x ^ y;
}

/* 0 = none. Looks at every byte; the last step overlaps the one before. */
static uint64_t differ(const char *a, const char *b, size_t n)
{
    vec v = {0};
    uint64_t few = 0;
    if (n < sizeof v) {
        for (size_t i = 0; i < n; i++)
            few |= (unsigned char)(a[i] ^ b[i]);
        return few;
    }
    for (size_t i = 0; i + sizeof v < n; i += sizeof v)
        v |= differ_at(a + i, b + i);
    v |= differ_at(a + n - sizeof v, b + n - sizeof v);
    return v[0] | v[1];
}

static bool is_known(const struct kept *k, struct bytes in, uint64_t *length)
{
    size_t after = k->at + k->n_digits;
    if (in.n < k->n || memcmp(in.p + k->n - 4, "\r\n\r\n", 4) != 0)
        return false;
    uint64_t differs = differ(in.p, k->text, k->at) | differ(in.p + after, k->text + after, k->n - after);
    return differs == 0 && bytes_to_u64(bytes_from(in.p + k->at, k->n_digits), length);
}

static void give(const struct kept *k, struct bytes text, uint64_t length, struct arena *arena, struct head *out)
{
    size_t fields_bytes = k->head.fields.n * sizeof(struct field);
    char *fields = arena_alloc_raw(arena, fields_bytes + text.n), *copy = fields + fields_bytes;
    memcpy(fields, k->fields, fields_bytes);
    memcpy(copy, text.p, text.n);
    *out = k->head;
    out->content_length = length;
    out->fields.v = (struct field *)(void *)fields;
    head_move(out, bytes_from(k->text, k->n), copy);
}

bool heads_find(struct heads *h, struct bytes in, const struct head_limits *limits, struct arena *arena,
                struct head *out, size_t *used)
{
    h->last = NULL;
    for (size_t i = 0; i < KEPT_MAX && h->kept[i] != NULL; i++) {
        struct kept *k = h->kept[i];
        uint64_t length;
        if (!is_known(k, in, &length))
            continue;
        if (k->n > limits->bytes || k->head.fields.n > limits->fields)
            return false;
        give(k, bytes_from(in.p, k->n), length, arena, out);
        *used = k->n;
        h->last = k;
        if (i > 0) {
            h->kept[i] = h->kept[i - 1];
            h->kept[i - 1] = k;
        }
        return true;
    }
    return false;
}

/* ---- keeping ---- */

/* A body of known length for a path; a target of another form may have views that lie elsewhere. The last bytes are
 * those of the fields' end, and the text begins with the start line: no empty lines are before it. */
static bool may_be_kept(struct bytes text, const struct head *head)
{
    return head->framing == FRAMING_LENGTH && head->target.p[0] == '/' && head->method.p == text.p &&
           text.n <= TEXT_MAX && head->fields.n <= FIELDS_MAX;
}

void heads_note(struct heads *h, struct bytes text, const struct head *head)
{
    h->last = NULL;
    if (!may_be_kept(text, head) || h->n_unknown++ % NOTED_EVERY != 0)
        return;
    struct kept *k = h->kept[KEPT_MAX - 1] != NULL ? h->kept[KEPT_MAX - 1] : mem_alloc(sizeof *k);
    struct bytes length = fields_get(&head->fields, "content-length");
    for (size_t i = KEPT_MAX - 1; i > 0; i--)
        h->kept[i] = h->kept[i - 1];
    h->kept[0] = h->last = k;
    k->memo = (struct head_memo){0};
    k->n = text.n;
    k->at = (size_t)(length.p - text.p);
    k->n_digits = length.n;
    k->head = *head;
    k->head.fields.v = k->fields;
    memcpy(k->fields, head->fields.v, head->fields.n * sizeof *k->fields);
    memcpy(k->text, text.p, text.n);
    head_move(&k->head, text, k->text);
}
