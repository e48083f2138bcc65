/* What is read by its form is read as from a tree: for recorded and golden streams, at every cut, and for tens of
 * thousands of mutations of them (RINGMAIN_MUTATIONS tells how many). */
#include "unit.h"

#include "answer_kit.h"
#include "base/rng.h"

#include <dirent.h>

enum { N_MUTATIONS = 40000, BYTES_CUT = 1500 };

/* ---- two readers ---- */

static const struct dialect *const both[] = {&kit_openai, &kit_anthropic};

struct way {
    bool looks_ahead;
    bool strips_usage;
    const struct dialect *dialect;
    size_t n_ahead;  /* out: events that were read by their form */
    size_t n_more;   /* out: of these, the collector's */
    size_t n_pieces; /* out: events that went to a client in pieces */
    struct collector collector;
    struct encoder clients[2]; /* that stream in both dialects */
    bool has_failed;
};

/* events: as lines. told: what streaming clients of both dialects get, by encoders. raw: what the client gets; where
 * the last LF of an event belongs depends on the cut. whole: the answer as a client gets it that waits. */
struct heard {
    struct buf events, raw, whole, told[2];
};

static void put_raw(struct heard *out, struct bytes raw, size_t strip_at, size_t strip_end)
{
    buf_put(&out->raw, bytes_slice(raw, 0, strip_at));
    buf_put(&out->raw, bytes_slice(raw, strip_end, raw.n));
}

/* is_more is the one member that tells the two ways apart. */
static void put_events(struct heard *out, const struct decoded *d)
{
    struct decoded plain = *d;
    plain.strip_at = plain.strip_end = 0;
    kit_batch(&out->events, &plain);
    for (size_t i = 0; i < d->n; i++)
        buf_printf(&out->events, "%u bytes\n", d->v[i].text_bytes);
}

static void collect(struct way *w, const struct sse_event *ev, const struct decoded *d)
{
    for (size_t i = 0; i < d->n; i++)
        w->has_failed |= d->v[i].kind == EVENT_ERROR;
    if (!w->has_failed && !d->is_malformed && !d->is_dropped)
        collector_event(&w->collector, ev->name, ev->data);
}

/* As the draft does it: where the collector cannot go on by itself, the bytes are read again. */
static void collect_more(struct way *w, struct bytes raw, const struct decoded *d)
{
    struct sse s;
    struct sse_event ev;
    if (d->v[0].is_more && collector_more(&w->collector, d->v[0].text)) {
        w->n_more++;
        return;
    }
    sse_init(&s, 0);
    sse_feed(&s, raw);
    assert_int_equal(sse_next(&s, &ev), SSE_EVENT);
    collect(w, &ev, d);
    assert_true(sse_is_used_up(&s));
    sse_fini(&s);
}

/* As the draft does it: what is the event before with other text goes in pieces. */
static void tell(struct way *w, const struct decoded *d, struct heard *out)
{
    struct bytes parts[3];
    for (size_t i = 0; i < d->n; i++) {
        w->has_failed |= d->v[i].kind == EVENT_ERROR;
        for (size_t k = 0; k < 2 && !w->has_failed; k++) {
            bool is_more = w->looks_ahead && d->v[i].is_more && encoder_more(&w->clients[k], &d->v[i], parts);
            for (size_t p = 0; is_more && p < 3; p++)
                buf_put(&out->told[k], parts[p]);
            if (!is_more)
                encoder_event(&w->clients[k], &d->v[i], &out->told[k]);
            w->n_pieces += is_more;
        }
    }
}

static void read_tree(struct way *w, struct decoder *d, const struct sse_event *ev, struct heard *out)
{
    struct decoded got;
    decoder_event(d, ev, &got);
    collect(w, ev, &got);
    tell(w, &got, out);
    size_t at = got.strip_end > got.strip_at && ev->is_verbatim ? (size_t)(ev->data.p - ev->raw.p) : 0;
    bool is_cut = got.strip_end > got.strip_at && ev->is_verbatim;
    put_events(out, &got);
    put_raw(out, ev->raw, is_cut ? at + got.strip_at : 0, is_cut ? at + got.strip_end : 0);
}

static void read_fed(struct way *w, struct sse *s, struct decoder *d, struct heard *out)
{
    struct sse_event ev;
    struct output known;
    for (;;) {
        struct bytes ahead = sse_ahead(s);
        size_t n = w->looks_ahead ? decoder_ahead(d, ahead, &known) : 0;
        if (n > 0) {
            struct decoded got = {.v = known.v, .n = known.n, .strip_at = known.strip_at, .strip_end = known.strip_end};
            assert_true(n <= ahead.n && got.n == 1 && known.raw_is_stream && !known.is_dropped);
            assert_true(known.raw.p == ahead.p && known.raw.n == n);
            put_events(out, &got);
            collect_more(w, bytes_slice(ahead, 0, n), &got);
            tell(w, &got, out);
            put_raw(out, bytes_slice(ahead, 0, n), got.strip_at, got.strip_end);
            sse_pass(s, n);
            w->n_ahead++;
            continue;
        }
        enum sse_result r = sse_next(s, &ev);
        if (r == SSE_EVENT)
            read_tree(w, d, &ev, out);
        else if (r == SSE_COMMENT)
            put_raw(out, ev.raw, 0, 0);
        else
            return;
    }
}

/* Each part is a copy of its own size: reading past it is seen. */
static void read_part(struct way *w, struct sse *s, struct decoder *d, struct bytes part, struct heard *out)
{
    char *copy = malloc(part.n ? part.n : 1);
    memcpy(copy, part.p, part.n);
    sse_feed(s, bytes_from(copy, part.n));
    read_fed(w, s, d, out);
    s->in.n = 0; /* it was all taken, unless an event was too large */
    free(copy);
}

static void read_all(struct way *w, struct bytes in, size_t cut, struct heard *out)
{
    struct sse s;
    struct sse_event ev;
    struct decoder d;
    struct decoded got;
    buf_clear(&out->events);
    buf_clear(&out->raw);
    buf_clear(&out->whole);
    w->has_failed = false;
    struct encoder_options o = {.model = BYTES("m"), .created_wall_s = 1};
    collector_init(&w->collector, w->dialect, &o);
    o.is_stream = o.wants_usage = true;
    for (size_t k = 0; k < 2; k++) {
        buf_clear(&out->told[k]);
        encoder_init(&w->clients[k], both[k], &o);
    }
    sse_init(&s, 8192);
    decoder_init(&d, w->dialect, BYTES("generic"), KIT_DEPTH, w->strips_usage);
    read_part(w, &s, &d, bytes_slice(in, 0, cut), out);
    read_part(w, &s, &d, bytes_slice(in, cut, in.n), out);
    if (!s.rest_is_done)
        buf_put(&out->raw, buf_bytes(&s.rest));
    if (sse_end(&s, &ev)) {
        decoder_event(&d, &ev, &got);
        collect(w, &ev, &got);
        tell(w, &got, out);
        put_events(out, &got);
    }
    for (size_t k = 0; k < 2; k++) {
        encoder_end(&w->clients[k], &out->told[k]);
        encoder_fini(&w->clients[k]);
    }
    collector_end(&w->collector, &out->whole);
    collector_fini(&w->collector);
    buf_printf(&out->events, "complete %d", decoder_is_complete(&d));
    sse_fini(&s);
    decoder_fini(&d);
}

/* ---- the material ---- */

struct corpus {
    struct buf v[256];
    size_t n;
};

static void add_file(struct corpus *c, const char *path)
{
    if (c->n < RM_COUNTOF(c->v) && kit_read(path, &c->v[c->n]) && c->v[c->n].n > 0)
        c->n++;
}

/* Folders two deep: <root>/<folder>/<file that ends so>. */
static void add_files(struct corpus *c, const char *root, const char *end)
{
    char path[1024];
    DIR *outer = opendir(root);
    for (struct dirent *o; outer != NULL && (o = readdir(outer)) != NULL;) {
        if (o->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", root, o->d_name);
        DIR *inner = opendir(path);
        for (struct dirent *i; inner != NULL && (i = readdir(inner)) != NULL;) {
            if (!bytes_ends_with(bytes_of(i->d_name), bytes_of(end)))
                continue;
            snprintf(path, sizeof path, "%s/%s/%s", root, o->d_name, i->d_name);
            add_file(c, path);
        }
        if (inner != NULL)
            closedir(inner);
    }
    if (outer != NULL)
        closedir(outer);
}

static void add_text(struct corpus *c, const char *text)
{
    buf_puts(&c->v[c->n++], text);
}

/* Forms that hide a trap each. */
static void add_traps(struct corpus *c)
{
#define CHAT(rest) "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{" rest "}}]"
    add_text(c,
             CHAT("\"content\":\"a\"") "}\n\n" CHAT("\"content\":\"b\"") "}\n\n" CHAT("\"content\":\"\"") "}\n\n" CHAT(
                 "\"content\":\"\\ud83d\\ude82\"") "}\n\n" CHAT("\"content\":\"\\ud83d\"") "}\n\n");
    add_text(c, CHAT("\"content\":\"a\",\"content\":\"a\"") "}\n\n" CHAT(
                    "\"content\":\"a\",\"content\":\"b\"") "}\n\n" CHAT("\"content\":\"b\",\"content\":\"b\"") "}\n\n");
    add_text(c, CHAT("\"content\":\"a\"") ",\"obfuscation\":\"x\",\"usage\":null}\n\n" CHAT(
                    "\"content\":\"bcd\"") ",\"obfuscation\":\"\\"
                                           "u0041yz\",\"usage\":null}\n\n" CHAT(
                                               "\"content\":\"e\"") ",\"obfuscation\":\"\",\"usage\":null}\n\n");
    add_text(c, "data: {\"p\":\"x\",\"usage\":null,\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
                "data: {\"p\":\"x\",\"usage\":null,\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
                "data: {\"p\":\"xyz\",\"usage\":null,\"choices\":[{\"delta\":{\"content\":\"bc\"}}]}\n\n"
                "data: {\"p\":7,\"usage\":null,\"choices\":[{\"delta\":{\"content\":\"bc\"}}]}\n\n");
#define CALL(id, args)                                                                                                \
    CHAT("\"tool_calls\":[{\"index\":0,\"id\":\"" id "\",\"function\":{\"name\":\"f\",\"arguments\":\"" args "\"}}]") \
    "}\n\n"
    add_text(c, CALL("", "") CALL("one", "{") CALL("two", "1") CALL("two", "2") CALL("two", "3") CALL("one", "}"));
    add_text(c, CALL("one", "{") CALL("one", "1") CALL("one", "2") CALL("one", "3") CALL("one", "\\\"4"));
    add_text(c, CALL("one", "") CALL("two", "1") CALL("two", "1") CALL("two", "1"));
    add_text(c, CHAT("\"content\":\"a\"") "}\r\n\r\n" CHAT("\"content\":\"b\"") "}\r\n\r\n" CHAT(
                    "\"content\":\"c\"") "}\n\n");
    add_text(c, "\xef\xbb\xbf" CHAT("\"content\":\"a\"") "}\n\n\xef\xbb\xbf" CHAT("\"content\":\"b\"") "}\n\n" CHAT(
                    "\"content\":\"c\"") "}\n\n");
    add_text(c, "event: error\n" CHAT("\"content\":\"a\"") "}\n\n" CHAT("\"content\":\"b\"") "}\n\n");
#undef CALL
#undef CHAT
}

static void corpus_init(struct corpus *c)
{
    const char *source = getenv("RINGMAIN_SOURCE"), *fixtures = getenv("RINGMAIN_FIXTURES");
    char golden[600];
    snprintf(golden, sizeof golden, "%s/tests/golden/answer", source ? source : ".");
    memset(c, 0, sizeof *c);
    add_traps(c);
    add_files(c, golden, "upstream.sse");
    assert_true(c->n > 30);
    size_t before = c->n;
    if (fixtures != NULL)
        add_files(c, fixtures, ".sse");
    if (c->n == before)
        print_message("recorded streams are not here: golden ones only\n");
}

static void corpus_fini(struct corpus *c)
{
    for (size_t i = 0; i < c->n; i++)
        buf_fini(&c->v[i]);
}

/* ---- the law ---- */

struct law {
    const struct dialect *dialect;
    bool strips_usage;
    size_t n_ahead, n_more, n_pieces;
    struct heard want, got;
};

static void must_be_equal(struct bytes in, size_t cut, const struct buf *want, const struct buf *got)
{
    if (!bytes_eq(buf_bytes(want), buf_bytes(got)))
        fail_msg("cut at %zu of\n%.*s\nfrom trees:\n%.*s\nby form:\n%.*s", cut, (int)in.n, in.p, (int)want->n, want->p,
                 (int)got->n, got->p);
}

static void heard_fini(struct heard *h)
{
    buf_fini(&h->events);
    buf_fini(&h->raw);
    buf_fini(&h->whole);
    buf_fini(&h->told[0]);
    buf_fini(&h->told[1]);
}

static void holds(struct law *l, struct bytes in, size_t cut)
{
    struct way tree = {.strips_usage = l->strips_usage, .dialect = l->dialect}, ahead = tree;
    ahead.looks_ahead = true;
    read_all(&tree, in, in.n, &l->want);
    read_all(&ahead, in, cut, &l->got);
    must_be_equal(in, cut, &l->want.events, &l->got.events);
    must_be_equal(in, cut, &l->want.raw, &l->got.raw);
    must_be_equal(in, cut, &l->want.whole, &l->got.whole);
    must_be_equal(in, cut, &l->want.told[0], &l->got.told[0]);
    must_be_equal(in, cut, &l->want.told[1], &l->got.told[1]);
    l->n_ahead += ahead.n_ahead;
    l->n_more += ahead.n_more;
    l->n_pieces += ahead.n_pieces;
}

static void law_fini(struct law *l)
{
    heard_fini(&l->want);
    heard_fini(&l->got);
}

static void whole_streams(void **state)
{
    (void)state;
    struct corpus c;
    struct law l = {0};
    corpus_init(&c);
    for (size_t i = 0; i < c.n; i++) {
        for (size_t k = 0; k < 4; k++) {
            l.dialect = both[k / 2];
            l.strips_usage = k % 2;
            holds(&l, buf_bytes(&c.v[i]), c.v[i].n);
        }
    }
    assert_true(l.n_ahead > 20); /* of the traps and golden cases alone */
    assert_true(l.n_pieces > 20);
    law_fini(&l);
    corpus_fini(&c);
}

static void cuts(void **state)
{
    (void)state;
    struct corpus c;
    struct law l = {.strips_usage = true};
    corpus_init(&c);
    for (size_t i = 0; i < c.n; i++) {
        struct bytes in = bytes_slice(buf_bytes(&c.v[i]), 0, BYTES_CUT);
        l.dialect = both[bytes_find(in, BYTES("event: message")) != SIZE_MAX];
        size_t step = in.n < BYTES_CUT / 2 ? 1 : 7; /* the long ones are many, and much alike */
        for (size_t cut = 1 + i % step; cut < in.n; cut += step)
            holds(&l, in, cut);
    }
    assert_true(l.n_ahead > 1000);
    law_fini(&l);
    corpus_fini(&c);
}

/* ---- mutations ---- */

/* A few events in a row. */
static struct bytes few_events(struct rng *r, struct bytes in)
{
    size_t from = rng_below(r, in.n), to;
    size_t back = bytes_find(bytes_slice(in, from, in.n), BYTES("\n\n"));
    from = rng_below(r, 3) == 0 || back == SIZE_MAX ? 0 : from + back + 2;
    to = from;
    for (size_t n = rng_between(r, 2, 4); n > 0 && to < in.n; n--) {
        size_t next = bytes_find(bytes_slice(in, to, in.n), BYTES("\n\n"));
        to = next == SIZE_MAX ? in.n : to + next + 2;
    }
    return bytes_slice(in, from, to - from > 2000 ? from + 2000 : to);
}

static void mutate_once(struct rng *r, struct bytes in, struct buf *out)
{
    static const char *const pieces[] = {"\"",
                                         "\\",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\n",
                                         "\r",
                                         "\n\n",
                                         "null",
                                         "\\u0041",
                                         "\\ud8",
                                         "\xc3\xa9",
                                         "\xff",
                                         "\x01",
                                         "\"\"",
                                         "0",
                                         "\"usage\":null,",
                                         "\"id\":\"x\",",
                                         " ",
                                         "\\n",
                                         "\xed\xa0\x80",
                                         "data: ",
                                         "\r\n\r\n"};
    size_t at = rng_below(r, in.n + 1), n = rng_below(r, 4) == 0 ? rng_below(r, 40) : rng_below(r, 3);
    const char *piece = pieces[rng_below(r, RM_COUNTOF(pieces))];
    size_t end = at + n < in.n ? at + n : in.n;
    buf_put(out, bytes_slice(in, 0, at));
    switch (rng_below(r, 4)) {
    case 0: /* put in */
        buf_puts(out, piece);
        buf_put(out, bytes_slice(in, at, in.n));
        break;
    case 1: /* take out */
        buf_put(out, bytes_slice(in, end, in.n));
        break;
    case 2: /* replace */
        buf_puts(out, piece);
        buf_put(out, bytes_slice(in, end, in.n));
        break;
    default: /* again */
        buf_put(out, bytes_slice(in, at, end));
        buf_put(out, bytes_slice(in, at, in.n));
        break;
    }
}

static uint64_t n_mutations(void)
{
    const char *told = getenv("RINGMAIN_MUTATIONS");
    uint64_t n = N_MUTATIONS;
    return told != NULL && bytes_to_u64(bytes_of(told), &n) && n > 100 ? n : N_MUTATIONS;
}

static void mutations(void **state)
{
    (void)state;
    uint64_t n_wanted = n_mutations();
    struct corpus c;
    struct law l = {0};
    struct rng r = {2026};
    struct buf one = {0}, two = {0};
    corpus_init(&c);
    for (uint64_t i = 0; i < n_wanted; i++) {
        struct bytes in = few_events(&r, buf_bytes(&c.v[rng_below(&r, c.n)]));
        buf_clear(&one);
        buf_put(&one, in);
        if (rng_below(&r, 2) == 0) /* the last event once more: a form that fits, but for what is done to it */
            buf_put(&one, in);
        for (size_t n = rng_between(&r, 1, 3); n > 0; n--) {
            buf_clear(&two);
            mutate_once(&r, buf_bytes(&one), &two);
            struct buf was = one;
            one = two;
            two = was;
        }
        l.dialect = both[bytes_find(in, BYTES("content_block")) != SIZE_MAX];
        l.strips_usage = rng_below(&r, 2);
        holds(&l, buf_bytes(&one), rng_below(&r, 2) ? one.n : rng_below(&r, one.n + 1));
    }
    assert_true(l.n_ahead > n_wanted / 50 && l.n_more > n_wanted / 500);
    buf_fini(&one);
    buf_fini(&two);
    law_fini(&l);
    corpus_fini(&c);
}

/* ---- how often ---- */

/* A stream of the usual kind is read by its form but for its ends. */
static void usual_streams(void **state)
{
    (void)state;
    struct buf in = {0};
    struct heard out = {0};
    struct way w = {.looks_ahead = true, .strips_usage = true, .dialect = &kit_openai};
    for (int i = 0; i < 50; i++)
        buf_printf(
            &in,
            "data: {\"id\":\"c1\",\"created\":17,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\""
            " word%d\\n\"},\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"%.*s\"}\n\n",
            i * i, i % 7, "abcdefg");
    read_all(&w, buf_bytes(&in), in.n, &out);
    assert_int_equal(w.n_more, 48);
    assert_int_equal(w.n_ahead, 48); /* the first has a start beside it, the second makes the form */
    buf_clear(&in);
    w = (struct way){.looks_ahead = true, .dialect = &kit_anthropic};
    for (int i = 0; i < 50; i++)
        buf_printf(&in,
                   "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
                   "{\"type\":\"text_delta\",\"text\":\" \xc3\xa9 %d\"}}\n\n",
                   i * i);
    read_all(&w, buf_bytes(&in), in.n, &out);
    assert_int_equal(w.n_ahead, 49);
    buf_fini(&in);
    heard_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_streams),
        cmocka_unit_test(cuts),
        cmocka_unit_test(mutations),
        cmocka_unit_test(usual_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
