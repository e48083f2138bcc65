/* One list of fields per struct, walked by a `struct codec` that either writes or reads: the two directions cannot
 * drift apart. */
#include "ledger/pack.h"

struct codec {
    struct buf *out; /* writing, else NULL */
    struct bytes in; /* reading: what is left */
    struct arena *arena;
};

static void put_varint(struct buf *out, uint64_t v)
{
    char b[10];
    size_t n = 0;
    while (v >= 0x80) {
        b[n++] = (char)(v | 0x80);
        v >>= 7;
    }
    b[n++] = (char)v;
    buf_put(out, bytes_from(b, n));
}

static uint64_t get_varint(struct bytes *in)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        RM_ASSERT(in->n > 0);
        unsigned char b = (unsigned char)*in->p;
        in->p++;
        in->n--;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            break;
    }
    return v;
}

static int64_t do_int(struct codec *c, int64_t v)
{
    if (c->out != NULL) {
        put_varint(c->out, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
        return v;
    }
    uint64_t z = get_varint(&c->in);
    return (int64_t)(z >> 1 ^ (~(z & 1) + 1));
}

static struct bytes cut_text(struct bytes t, size_t max)
{
    if (t.n <= max)
        return t;
    while (max > 0 && ((unsigned char)t.p[max] & 0xc0) == 0x80)
        max--;
    return bytes_slice(t, 0, max);
}

/* NULL is told apart from "": length + 1, 0 = NULL. */
static const char *do_text(struct codec *c, const char *v)
{
    if (c->out != NULL) {
        struct bytes t = cut_text(bytes_of(v), PACK_TEXT_MAX);
        put_varint(c->out, v == NULL ? 0 : t.n + 1);
        buf_put(c->out, t);
        return v;
    }
    uint64_t n = get_varint(&c->in);
    if (n == 0)
        return NULL;
    n--;
    RM_ASSERT(n <= c->in.n);
    struct bytes t = arena_dup(c->arena, bytes_slice(c->in, 0, (size_t)n));
    c->in = bytes_slice(c->in, (size_t)n, c->in.n);
    return t.p;
}

static void do_array(struct codec *c, char *v, size_t cap)
{
    const char *t = do_text(c, v);
    if (c->out != NULL)
        return;
    size_t n = strlen(t);
    RM_ASSERT(n < cap);
    memcpy(v, t, n + 1);
}

#define INT(type, member) (member) = (type)do_int(c, (int64_t)(member))
#define TEXT(member) (member) = do_text(c, (member))

static void do_attempt(struct codec *c, struct attempt_record *a)
{
    INT(uint16_t, a->n);
    INT(uint16_t, a->link);
    INT(enum attempt_kind, a->kind);
    INT(enum outcome, a->outcome);
    INT(bool, a->in_stream);
    INT(bool, a->is_started);
    INT(bool, a->is_served);
    INT(uint16_t, a->status);
    TEXT(a->provider);
    TEXT(a->model);
    INT(int64_t, a->start_us);
    INT(int64_t, a->connect_us);
    INT(int64_t, a->first_byte_us);
    INT(int64_t, a->ttft_us);
    INT(int64_t, a->total_us);
    INT(int64_t, a->tokens.input);
    INT(int64_t, a->tokens.cache_read);
    INT(int64_t, a->tokens.cache_write_5m);
    INT(int64_t, a->tokens.cache_write_1h);
    INT(int64_t, a->tokens.output);
    INT(int64_t, a->tokens.reasoning);
    INT(enum tokens_from, a->tokens_from);
    TEXT(a->price_version);
    INT(int64_t, a->cost_nusd);
    INT(int64_t, a->waste_nusd);
    INT(int64_t, a->retry_after_ms);
    do_array(c, a->provider_request_id, sizeof a->provider_request_id);
    do_array(c, a->decision, sizeof a->decision);
}

static void do_request(struct codec *c, struct request_record *r)
{
    INT(uint64_t, r->id);
    INT(int64_t, r->started_wall_ms);
    TEXT(r->key);
    TEXT(r->route);
    TEXT(r->dialect);
    TEXT(r->provider);
    TEXT(r->model);
    INT(bool, r->is_stream);
    INT(uint16_t, r->status);
    INT(enum outcome, r->outcome);
    INT(int16_t, r->served_link);
    INT(int64_t, r->ttft_us);
    INT(int64_t, r->total_us);
    INT(int64_t, r->gateway_us);
    INT(int64_t, r->prompt_bytes);
    INT(int64_t, r->max_tokens);
    TEXT(r->effort);
    INT(uint64_t, r->prefix_hash);
    INT(int64_t, r->cost_nusd);
    INT(int64_t, r->waste_nusd);
    TEXT(r->adjusted);
    TEXT(r->trace_id);
    INT(uint16_t, r->n_attempts);
    INT(uint16_t, r->n_started);
}

void pack_request(struct buf *out, const struct request_record *rec)
{
    struct codec c = {.out = out};
    struct request_record r = *rec;
    do_int(&c, 0);
    do_request(&c, &r);
    for (unsigned i = 0; i < rec->n_attempts; i++) {
        struct attempt_record a = rec->attempts[i];
        do_attempt(&c, &a);
    }
}

void pack_keepalive(struct buf *out, uint64_t id, int64_t started_wall_ms, const struct attempt_record *a)
{
    struct codec c = {.out = out};
    struct attempt_record copy = *a;
    copy.kind = ATTEMPT_KEEPALIVE;
    do_int(&c, 1);
    do_int(&c, (int64_t)id);
    do_int(&c, started_wall_ms);
    do_attempt(&c, &copy);
}

void pack_read(struct bytes in, struct arena *arena, struct packed *out)
{
    struct codec c = {.in = in, .arena = arena};
    memset(out, 0, sizeof *out);
    struct request_record *r = &out->record;
    out->is_keepalive = do_int(&c, 0) != 0;
    if (out->is_keepalive) {
        r->id = (uint64_t)do_int(&c, 0);
        r->started_wall_ms = do_int(&c, 0);
        r->n_attempts = 1;
    } else {
        do_request(&c, r);
    }
    r->attempts = ARENA_ARRAY(arena, struct attempt_record, r->n_attempts);
    for (unsigned i = 0; i < r->n_attempts; i++)
        do_attempt(&c, &r->attempts[i]);
    RM_ASSERT(c.in.n == 0);
}
