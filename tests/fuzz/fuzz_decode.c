/* Any bytes as a provider's answer, as a stream and whole, through the decoders of both dialects and on through both
 * encoders: what is to be cut out leaves JSON, and what the client would get is well-formed whatever came. */
#include "fuzz.h"

#include "base/buf.h"
#include "codec/json_tree.h"
#include "dialect/decode.h"
#include "dialect/dialect.h"
#include "dialect/encode.h"

enum { DEPTH_MAX = 64, N_DIALECTS = 2 };

struct client {
    struct encoder encoder;
    struct buf out;
};

static bool is_json(struct bytes text)
{
    struct arena a = {0};
    yyjson_val *root;
    bool is = json_tree_parse(text, 4096, &a, &root) == ERR_OK;
    arena_fini(&a);
    return is;
}

/* Reads every byte, so that a view of memory that is gone is seen. */
static void touch(struct bytes text)
{
    RM_ASSERT(text.n == 0 || text.p != NULL);
    volatile uint64_t sum = bytes_hash(text, 0);
    (void)sum;
}

static void check_event(const struct event *e)
{
    RM_ASSERT(e->kind <= EVENT_OTHER && (e->kind != EVENT_FINISH || e->reason <= FINISH_CONTEXT_WINDOW));
    touch(e->text);
    touch(e->id);
    touch(e->name);
}

static void check_strip(struct bytes data, const struct decoded *d)
{
    RM_ASSERT(d->strip_at <= d->strip_end && d->strip_end <= data.n);
    if (d->strip_at == d->strip_end)
        return;
    struct buf left = {0};
    buf_put(&left, bytes_slice(data, 0, d->strip_at));
    buf_put(&left, bytes_slice(data, d->strip_end, data.n));
    RM_ASSERT(is_json(buf_bytes(&left)));
    buf_fini(&left);
}

/* ---- what the client gets ---- */

static yyjson_val *tree_of(struct bytes text, struct arena *a)
{
    yyjson_val *root = NULL;
    RM_ASSERT(json_tree_parse(text, 4096, a, &root) == ERR_OK && yyjson_is_obj(root));
    return root;
}

/* Blocks open and close in turn, numbered from 0; one start, one stop, in their places. */
struct messages_law {
    int64_t n_blocks;
    bool is_started, is_open, is_stopped;
};

static void check_message_event(struct messages_law *law, const struct sse_event *ev, yyjson_val *root)
{
    struct bytes type = json_tree_str(root, "type");
    RM_ASSERT(bytes_eq(type, ev->name) && !law->is_stopped);
    RM_ASSERT(law->is_started != bytes_is(type, "message_start"));
    law->is_started = true;
    if (bytes_is(type, "content_block_start")) {
        RM_ASSERT(!law->is_open && json_tree_int(root, "index", -1) == law->n_blocks);
        law->is_open = true;
    } else if (bytes_is(type, "content_block_delta")) {
        RM_ASSERT(law->is_open && json_tree_int(root, "index", -1) == law->n_blocks);
    } else if (bytes_is(type, "content_block_stop")) {
        RM_ASSERT(law->is_open && json_tree_int(root, "index", -1) == law->n_blocks++);
        law->is_open = false;
    } else if (bytes_is(type, "message_stop")) {
        RM_ASSERT(!law->is_open);
        law->is_stopped = true;
    }
}

static void check_stream(const struct client *c, bool is_ended)
{
    struct sse s;
    struct sse_event ev;
    struct messages_law law = {0};
    bool is_chat = bytes_is(bytes_of(c->encoder.dialect->name), "openai"), is_done = false;
    sse_init(&s, 0);
    sse_feed(&s, buf_bytes(&c->out));
    for (enum sse_result r; (r = sse_next(&s, &ev)) != SSE_MORE;) {
        struct arena a = {0};
        RM_ASSERT(r == SSE_EVENT && ev.has_data && !is_done);
        is_done = is_chat && bytes_is(ev.data, "[DONE]");
        if (!is_done) {
            yyjson_val *root = tree_of(ev.data, &a);
            if (!is_chat)
                check_message_event(&law, &ev, root);
        }
        arena_fini(&a);
    }
    RM_ASSERT(s.rest.n == 0 && (is_done || law.is_stopped) == is_ended);
    sse_fini(&s);
}

static void check_whole(const struct client *c)
{
    struct arena a = {0};
    tree_of(buf_bytes(&c->out), &a);
    arena_fini(&a);
}

/* ---- one answer ---- */

struct listeners {
    struct client v[2 * N_DIALECTS]; /* each dialect as a stream and whole */
    bool has_failed;
};

static void listeners_init(struct listeners *l, const struct dialect *const *dialects)
{
    *l = (struct listeners){0};
    for (size_t i = 0; i < RM_COUNTOF(l->v); i++) {
        struct encoder_options o = {.is_stream = i % 2 == 0, .wants_usage = i < 2, .model = BYTES("m"), .id_seed = 7};
        encoder_init(&l->v[i].encoder, dialects[i / 2], &o);
    }
}

static void listeners_take(struct listeners *l, const struct decoded *d)
{
    RM_ASSERT(d->n == 0 || d->v != NULL);
    for (size_t i = 0; i < d->n && !l->has_failed; i++) {
        check_event(&d->v[i]);
        l->has_failed = d->v[i].kind == EVENT_ERROR;
        for (size_t k = 0; k < RM_COUNTOF(l->v) && !l->has_failed; k++)
            encoder_event(&l->v[k].encoder, &d->v[i], &l->v[k].out);
    }
}

static void listeners_end(struct listeners *l, bool is_complete)
{
    for (size_t i = 0; i < RM_COUNTOF(l->v); i++) {
        struct client *c = &l->v[i];
        RM_ASSERT(c->encoder.o.is_stream || c->out.n == 0);
        if (is_complete)
            encoder_end(&c->encoder, &c->out);
        if (c->encoder.o.is_stream)
            check_stream(c, is_complete);
        else if (is_complete)
            check_whole(c);
        encoder_fini(&c->encoder);
        buf_fini(&c->out);
    }
}

static void run_stream(struct bytes in, const struct dialect *const *dialects, size_t which, bool strips_usage)
{
    struct listeners l;
    struct decoder d;
    struct decoded out;
    struct sse s;
    struct sse_event ev;
    listeners_init(&l, dialects);
    decoder_init(&d, dialects[which], BYTES("generic"), DEPTH_MAX, strips_usage);
    sse_init(&s, 0);
    sse_feed(&s, in);
    while (sse_next(&s, &ev) != SSE_MORE) {
        decoder_event(&d, &ev, &out);
        check_strip(ev.data, &out);
        RM_ASSERT(!out.is_malformed || out.why != NULL);
        if (!out.is_malformed)
            listeners_take(&l, &out);
    }
    listeners_end(&l, decoder_is_complete(&d) && !l.has_failed);
    sse_fini(&s);
    decoder_fini(&d);
}

/* What is read by its form is read as from a tree. */
static uint64_t heard(struct bytes in, const struct dialect *dialect, bool strips_usage, bool looks_ahead)
{
    struct decoder d;
    struct sse s;
    struct sse_event ev;
    uint64_t sum = 0;
    decoder_init(&d, dialect, BYTES("generic"), DEPTH_MAX, strips_usage);
    sse_init(&s, 0);
    sse_feed(&s, in);
    for (;;) {
        struct decoded out = {0};
        struct bytes ahead = sse_ahead(&s);
        struct output known = {0};
        size_t n = looks_ahead && ahead.n > 0 ? decoder_ahead(&d, ahead, &known) : 0;
        size_t cut = known.strip_end - known.strip_at;
        if (n > 0) {
            out =
                (struct decoded){.v = known.v, .n = known.n, .strip_at = known.strip_at, .strip_end = known.strip_end};
            RM_ASSERT(known.raw.n == n && known.raw.p == ahead.p);
            RM_ASSERT(n <= ahead.n && out.strip_at <= out.strip_end && out.strip_end <= n);
            sse_pass(&s, n);
        } else if (sse_next(&s, &ev) == SSE_MORE) {
            break;
        } else {
            decoder_event(&d, &ev, &out);
            n = ev.raw.n;
            cut = out.strip_end - out.strip_at;
        }
        for (size_t i = 0; i < out.n; i++) {
            const struct event *e = &out.v[i];
            uint64_t facts =
                (uint64_t)e->kind << 48 | (uint64_t)e->is_token << 40 | (uint64_t)e->choice << 20 | e->tool;
            sum = bytes_hash(e->text, bytes_hash(e->name, sum ^ facts) + e->text_bytes);
        }
        if (out.n > 0) /* comments and empty lines are parts of no event */
            sum = bytes_hash((struct bytes){0}, sum + (n << 20) + (cut << 4) + out.is_dropped);
    }
    sse_fini(&s);
    decoder_fini(&d);
    return sum;
}

static void run_whole(struct bytes in, const struct dialect *const *dialects, size_t which)
{
    struct listeners l;
    struct decoder d;
    struct decoded out;
    listeners_init(&l, dialects);
    decoder_init(&d, dialects[which], BYTES("generic"), DEPTH_MAX, false);
    decoder_whole(&d, in, &out);
    RM_ASSERT(!out.is_malformed || out.why != NULL);
    if (!out.is_malformed) {
        RM_ASSERT(d.has_done || d.has_error);
        listeners_take(&l, &out);
    }
    listeners_end(&l, decoder_is_complete(&d) && !l.has_failed);
    decoder_fini(&d);
}

/* A whole answer of the usual form is read without a tree, as from one: a name with an escape sends it there. */
static uint64_t heard_whole(struct bytes in, const struct dialect *dialect, struct answer_form **form)
{
    struct decoder d;
    struct decoded out;
    decoder_init(&d, dialect, BYTES("generic"), DEPTH_MAX, false);
    d.form = form;
    decoder_whole(&d, in, &out);
    uint64_t sum = out.is_malformed;
    for (size_t i = 0; i < out.n; i++) {
        const struct event *e = &out.v[i];
        uint64_t facts = (uint64_t)e->kind << 48 | (uint64_t)e->is_token << 40 | (uint64_t)e->choice << 20 | e->tool |
                         (uint64_t)e->reason << 32;
        sum = bytes_hash(e->text, bytes_hash(e->name, bytes_hash(e->id, sum ^ facts)) + e->text_bytes);
        sum = bytes_hash(bytes_from(&e->usage, sizeof e->usage), sum);
    }
    decoder_fini(&d);
    return sum;
}

static void check_by_tree(struct bytes in, const struct dialect *dialect)
{
    struct bytes text = bytes_trim(in), rest = bytes_slice(text, 1, text.n);
    if (text.n == 0 || text.p[0] != '{' || !bytes_starts_with(bytes_trim(rest), BYTES("\"")))
        return;
    struct buf other = {0};
    buf_puts(&other, "{\"\\u007a\":0,");
    buf_put(&other, rest);
    RM_ASSERT(heard_whole(in, dialect, NULL) == heard_whole(buf_bytes(&other), dialect, NULL));
    buf_fini(&other);
}

/* By the form of the answer before: the same one, then one with another byte. */
static void check_by_form(struct bytes in, const struct dialect *dialect)
{
    struct rng r = fuzz_rng(in, 5);
    struct answer_form *form = NULL;
    uint64_t sum = heard_whole(in, dialect, &form);
    RM_ASSERT(heard_whole(in, dialect, &form) == sum);
    if (in.n > 0) {
        struct buf other = {0};
        buf_put(&other, in);
        other.p[rng_below(&r, in.n)] = (char)rng_below(&r, 256);
        sum = heard_whole(buf_bytes(&other), dialect, NULL);
        RM_ASSERT(heard_whole(buf_bytes(&other), dialect, &form) == sum);
        buf_fini(&other);
    }
    answer_form_free(form);
}

static void run_error(struct bytes in, const struct dialect *target)
{
    static const unsigned statuses[] = {400, 401, 404, 429, 500, 529};
    struct rng r = fuzz_rng(in, 3);
    struct failure f;
    struct fields none = {0};
    struct buf out = {0};
    dialect_classify(target, BYTES("generic"), statuses[rng_below(&r, RM_COUNTOF(statuses))], &none, in, 1796000000000,
                     &f);
    RM_ASSERT(f.class != FAILURE_NONE && f.class <= FAILURE_CLIENT && f.outcome < OUTCOME_N);
    RM_ASSERT(memchr(f.message, 0, sizeof f.message) != NULL && bytes_is_utf8(bytes_of(f.message)));
    struct arena a = {0};
    struct answer_error e = {0};
    error_of_failure(&f, "p", &a, &e);
    error_body(target, &e, &out);
    RM_ASSERT(is_json(buf_bytes(&out)));
    buf_fini(&out);
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_from(data, size);
    const struct dialect *dialects[N_DIALECTS] = {dialect_by_name(BYTES("openai")),
                                                  dialect_by_name(BYTES("anthropic"))};
    for (size_t i = 0; i < N_DIALECTS; i++) {
        run_stream(in, dialects, i, false);
        run_stream(in, dialects, i, true);
        for (unsigned strips = 0; strips < 2; strips++)
            RM_ASSERT(heard(in, dialects[i], strips, false) == heard(in, dialects[i], strips, true));
        run_whole(in, dialects, i);
        check_by_tree(in, dialects[i]);
        check_by_form(in, dialects[i]);
        run_error(in, dialects[i]);
    }
    return 0;
}
