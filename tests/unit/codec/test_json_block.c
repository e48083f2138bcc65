/* The scan in blocks against the scan byte by byte, and its bits against loops. With RM_BLOCK_PORTABLE (see
 * test_json_block_portable.c) the same over the words that stand in for vectors, with RM_BLOCK_NARROW over the vectors
 * that every x86-64 has, with RM_BLOCK_WIDE over the bits of wide ones (test_json_block_narrow.c, _wide.c). */
#include "unit.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "codec/json_block.h"
#include "codec/json_scan_impl.h"
#include "codec/json_string.h"
#include "codec/json_tree.h"

#include <stdlib.h>

enum { N_WANTED = 3, DEPTH = 16, NOTES = 256, LEVELS = 6 };

#if defined(RM_BLOCK_WIDE)
#define WIDE (&json_wide_constants)
#else
#define WIDE NULL
#endif

/* ---- bits ---- */

static void expect_bits(const unsigned char *p, struct json_bits got, uint64_t high, uint32_t odd)
{
    struct json_bits want = {0, 0};
    uint64_t want_high = 0;
    for (unsigned i = 0; i < JSON_BLOCK; i++) {
        want.stops |= (uint64_t)(p[i] == '"' || p[i] < 0x20 || p[i] >= 0x80) << i;
        want_high |= (uint64_t)(p[i] >= 0x80) << i;
        want.slashes |= (uint64_t)(p[i] == '\\') << i;
    }
    assert_true(got.stops == want.stops && high == want_high && got.slashes == want.slashes);
    assert_true(odd == (uint32_t)(want.stops | want.slashes));
}

#if defined(RM_BLOCK_WIDE)
static void expect_escapes(const unsigned char *p, uint64_t got)
{
    for (unsigned i = 0; i < JSON_BLOCK; i++)
        assert_int_equal(got >> i & 1, p[i] != 0 && strchr("\"\\/fnt", p[i]) != NULL);
}

/* Every text of up to four bytes that matter, in every place around the edges of vectors. */
static void utf8_by_vectors(void **state)
{
    (void)state;
    static const unsigned char odd[] = {'a',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
                                        0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
    enum { N = RM_COUNTOF(odd) };
    unsigned char text[3 + JSON_BLOCK];
    for (unsigned i = 0; i < N * N * N * N; i++) {
        const unsigned char some[4] = {odd[i % N], odd[i / N % N], odd[i / N / N % N], odd[i / N / N / N]};
        size_t at = 3 + (i % 3 == 0 ? 29 + i % 5 : i % 60);
        memset(text, 'x', sizeof text);
        memcpy(text + at, some, sizeof some);
        bool is_fine = bytes_is_utf8(bytes_from(text, sizeof text));
        if (at + 4 < sizeof text) /* else a character may go on behind */
            assert_int_equal(json_is_utf8_wide(WIDE, text + 3) && json_is_utf8_wide(WIDE, text + 3 + 32), is_fine);
    }
}
#endif

static void expect_all_bits(const unsigned char *p)
{
    expect_bits(p, json_bits_of(WIDE, p), json_high_of(p), json_odd_of(WIDE, p));
    expect_bits(p, json_bits_portable(p), json_high_portable(p), json_odd_portable(p));
    struct json_bits b = json_bits_of(WIDE, p);
    unsigned char wide[JSON_PLAIN];
    for (unsigned i = 0; i < JSON_PLAIN; i += JSON_BLOCK) {
        memset(wide, 'x', sizeof wide);
        memcpy(wide + i, p, JSON_BLOCK);
        assert_int_equal(json_block_is_plain(WIDE, wide), (b.stops | b.slashes) == 0);
    }
#if defined(RM_BLOCK_WIDE)
    expect_escapes(p, json_escapes_of(WIDE, p));
#endif
#if defined(__SSE2__)
    expect_bits(p, json_bits_sse2(p), json_high_sse2(p), json_odd_sse2(p));
    assert_int_equal(json_is_plain_sse2(p), (b.stops | b.slashes) == 0);
#endif
}

static void every_byte_in_every_place(void **state)
{
    (void)state;
    static const unsigned char around[] = {'a', '"', 0x00, 0xff, ' '};
    unsigned char block[JSON_BLOCK];
    for (unsigned at = 0; at < JSON_BLOCK; at++)
        for (unsigned v = 0; v < 256; v++)
            for (size_t k = 0; k < RM_COUNTOF(around); k++) {
                memset(block, around[k], sizeof block);
                block[at] = (unsigned char)v;
                expect_all_bits(block);
            }
}

static void bits_by_chance(void **state)
{
    (void)state;
    struct rng r = {7};
    unsigned char block[JSON_BLOCK];
    for (int i = 0; i < 20000; i++) {
        for (unsigned k = 0; k < JSON_BLOCK; k++)
            block[k] = (unsigned char)rng_below(&r, 256);
        expect_all_bits(block);
    }
}

static void escaped_bytes(void **state)
{
    (void)state;
    struct rng r = {11};
    uint64_t carry = 0;
    bool is_open = false; /* the byte before is a backslash that escapes */
    for (int i = 0; i < 50000; i++) {
        uint64_t slashes = rng_next(&r) | rng_next(&r), want = 0;
        slashes = i % 3 == 0 ? UINT64_MAX : i % 3 == 1 ? slashes : slashes & rng_next(&r) & rng_next(&r);
        for (unsigned k = 0; k < 64; k++) {
            want |= (uint64_t)is_open << k;
            is_open = !is_open && (slashes >> k & 1);
        }
        assert_true(json_escaped(slashes, &carry) == want);
        assert_int_equal(carry, is_open);
    }
}

/* ---- one scan against the other ---- */

struct outcome {
    struct json_member m[N_WANTED];
    struct json_scan scan;
};

static void want(struct outcome *o)
{
    static const char *const names[N_WANTED] = {"model", "m", "messages"};
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < N_WANTED; i++)
        o->m[i].name = names[i];
}

static void expect_equal(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->scan.open_at, b->scan.open_at);
    assert_int_equal(a->scan.is_empty, b->scan.is_empty);
    assert_int_equal(a->scan.error_at, b->scan.error_at);
    assert_ptr_equal(a->scan.error, b->scan.error);
    assert_ptr_equal(a->scan.duplicate, b->scan.duplicate);
    for (size_t i = 0; i < N_WANTED; i++) {
        assert_int_equal(a->m[i].type, b->m[i].type);
        if (a->m[i].type == JSON_ABSENT)
            continue;
        assert_int_equal(a->m[i].name_at, b->m[i].name_at);
        assert_int_equal(a->m[i].value_at, b->m[i].value_at);
        assert_int_equal(a->m[i].value_end, b->m[i].value_end);
    }
}

static size_t means_bytes(const char *p, const char *end)
{
    size_t n = 0;
    while (p < end) {
        if (*p != '\\') {
            n++;
            p++;
        } else if (p[1] != 'u') {
            n++;
            p += 2;
        } else {
            char hex[5] = {p[2], p[3], p[4], p[5], 0};
            unsigned long v = strtoul(hex, NULL, 16);
            n += v < 0x80 ? 1 : v < 0x800 || (v >= 0xd800 && v < 0xe000) ? 2 : 3;
            p += 6;
        }
    }
    return n;
}

static const char *past_blanks(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

static const char *string_after(const char *p)
{
    for (p++; *p != '"'; p++)
        p += *p == '\\';
    return p + 1;
}

/* The notes of the value at p, from number *k on, against a walk of its own; returns where the value ends. `level`: of
 * what it stands in. The text ends with a NUL. */
static const char *expect_notes(const char *p, unsigned level, const struct json_index *index, uint32_t *k)
{
    const struct json_note *note = level <= LEVELS ? &index->v[(*k)++] : NULL;
    const char *from = p;
    uint32_t less = 0;
    if (*p == '"') {
        p = string_after(p);
        less = (uint32_t)((size_t)(p - from) - 2 - means_bytes(from + 1, p - 1));
    } else if (*p == '{' || *p == '[') {
        bool is_object = *p == '{';
        less = level == LEVELS;
        for (p = past_blanks(p + 1); *p != '}' && *p != ']'; p = *p == ',' ? past_blanks(p + 1) : p) {
            if (is_object)
                p = past_blanks(past_blanks(expect_notes(p, level + 1, index, k)) + 1);
            p = past_blanks(expect_notes(p, level + 1, index, k));
        }
        p++;
    } else {
        p += strcspn(p, ",]} \t\r\n");
    }
    if (note != NULL) {
        assert_int_equal(note->at, from - index->text);
        assert_int_equal(note->end, p - index->text);
        assert_int_equal(note->next, *k);
        assert_int_equal(note->less, less);
    }
    return p;
}

/* Every value of a well-formed text is noted, and nothing else; what is called strict, the tree takes. */
static void expect_index(struct bytes text, const struct json_index *index)
{
    struct arena a = {0};
    yyjson_val *root;
    uint32_t k = 0;
    assert_ptr_equal(index->text, text.p);
    const char *copy = arena_dup(&a, text).p;
    struct json_index here = *index;
    here.text = copy;
    expect_notes(past_blanks(copy), 0, &here, &k);
    assert_int_equal(k, index->n);
    bool is_tree = json_tree_parse(text, 4096, &a, &root) == ERR_OK;
    if (index->is_strict)
        assert_true(is_tree);
    else
        assert_true(!is_tree || bytes_find_byte(text, '\\') != SIZE_MAX);
    arena_fini(&a);
}

static const struct json_form forms[] = {{"{\"role\":", ",\"content\":", 8, 1, 7, 11, 1, 10},
                                         {"{\"role\": ", ", \"content\": ", 9, 1, 7, 13, 2, 11}};

/* Who knows how objects begin is told the same as who does not. */
static void expect_same_notes(struct bytes text, unsigned depth, uint32_t levels, uint32_t max)
{
    struct json_note *notes[2];
    struct json_index index[2];
    struct json_scan scan;
    bool is_taken[2];
    for (int i = 0; i < 2; i++) {
        notes[i] = malloc((max + 1) * sizeof *notes[i]);
        index[i] = (struct json_index){.v = notes[i], .max = max, .levels = levels};
        index[i].forms = i == 0 ? NULL : forms;
        index[i].n_forms = i == 0 ? 0 : RM_COUNTOF(forms);
        is_taken[i] = json_scan_block(text, depth, NULL, 0, &scan, &index[i]);
    }
    assert_int_equal(is_taken[0], is_taken[1]);
    if (is_taken[0]) {
        assert_int_equal(index[0].n, index[1].n);
        assert_int_equal(index[0].is_strict, index[1].is_strict);
        assert_memory_equal(notes[0], notes[1], index[0].n * sizeof *notes[0]);
    }
    free(notes[0]);
    free(notes[1]);
}

static void expect_found(const struct json_index *index, const struct outcome *o)
{
    for (size_t i = 0; i < N_WANTED; i++)
        assert_int_equal(index->found >> i & 1, o->m[i].type != JSON_ABSENT);
    assert_int_equal(index->found >> N_WANTED, 0);
}

/* Who says by length which members are looked for gets the same, and none written that is not there. */
static void expect_same_members(struct bytes text, unsigned depth, const struct outcome *scalar, enum err e)
{
    static const uint32_t lengths[JSON_NAME_MAX + 1] = {[1] = 2, [5] = 1, [8] = 4};
    struct outcome absent, found;
    struct json_index index = {.wanted = lengths, .names = absent.m};
    want(&absent);
    memset(found.m, 0x5a, sizeof found.m);
    assert_int_equal(json_scan_indexed(text, depth, found.m, N_WANTED, &found.scan, &index), e);
    for (size_t i = 0; e == ERR_OK && i < N_WANTED; i++) {
        if (index.found >> i & 1)
            assert_string_equal(found.m[i].name, absent.m[i].name);
        else
            found.m[i] = absent.m[i];
    }
    if (e == ERR_OK)
        expect_equal(scalar, &found);
}

/* The text in a buffer of its own, `shift` bytes behind its start and exactly as long, so that a look beyond the end is
 * seen. True: the scan in blocks took it. */
static bool hold(struct bytes text, unsigned depth, size_t shift)
{
    char *copy = malloc(shift + text.n + 1);
    copy[0] = 'x';
    char *at = copy + shift + 1;
    memcpy(at, text.p, text.n);
    struct bytes in = bytes_from(at, text.n);
    struct outcome scalar, block, both;
    struct json_note notes[NOTES];
    struct json_index index = {.v = notes, .max = NOTES, .levels = LEVELS};
    want(&scalar);
    want(&block);
    want(&both);
    enum err e = json_scan_scalar(in, depth, scalar.m, N_WANTED, &scalar.scan);
    bool is_taken = json_scan_block(in, depth, block.m, N_WANTED, &block.scan, &index);
    if (is_taken) {
        assert_int_equal(e, ERR_OK);
        expect_equal(&scalar, &block);
        expect_found(&index, &scalar);
        if (index.n > 0)
            expect_index(in, &index);
    }
    assert_int_equal(json_scan(in, depth, both.m, N_WANTED, &both.scan), e);
    expect_equal(&scalar, &both);
    want(&both);
    assert_int_equal(json_scan_indexed(in, depth, both.m, N_WANTED, &both.scan, &index), e);
    if (e == ERR_OK)
        expect_found(&index, &scalar);
    expect_same_members(in, depth, &scalar, e);
    expect_same_notes(in, depth, LEVELS, NOTES);
    free(copy);
    return is_taken;
}

/* ---- places ---- */

/* What may stand in a string, or not. */
static const struct {
    const char *text;
    bool is_fine;
} bits[] = {{"", true},
            {"\\n", true},
            {"\\\"", true},
            {"\\\\", true},
            {"\\\\\\\"", true},
            {"\\u00e9", true},
            {"\\ud83d\\ude8b", true},
            {"\xc3\xa9", true},
            {"\xe2\x82\xac", true},
            {"\xed\x9f\xbf", true},
            {"\xf0\x9f\x9a\x8b", true},
            {"\xf4\x8f\xbf\xbf", true},
            {"\xe0\xa0\x80", true},
            {"\xee\x80\x80", true},
            {"\xc2\x80\xdf\xbf", true},
            {"\x7f", true},
            {"/'{}[]:,", true},
            {"\\", false},
            {"\\x", false},
            {"\\u12g4", false},
            {"\\u123", false},
            {"\\\xc3\xa9", false},
            {"\\\n", false},
            {"\n", false},
            {"\x1f", false},
            {"\x80", false},
            {"\xc3", false},
            {"\xc0\x80", false},
            {"\xc1\xbf", false},
            {"\xe0\x9f\xbf", false},
            {"\xed\xa0\x80", false},
            {"\xe2\x82", false},
            {"\xf0\x8f\xbf\xbf", false},
            {"\xf4\x90\x80\x80", false},
            {"\xf5\x80\x80\x80", false},
            {"\xff", false},
            {"\xf0\x9f\x9a", false},
            {"\xf0\x9f\x9a\xc3\xa9", false},
            {"\xc3\xa9\xa9", false}};

/* Each of them at every distance from a block's edge, after strings of every length up to two blocks. */
static void at_every_place(void **state)
{
    (void)state;
    struct buf text = {0};
    for (size_t lead = 0; lead < 2 * JSON_BLOCK + 3; lead++)
        for (size_t k = 0; k < RM_COUNTOF(bits); k++)
            for (size_t tail = 0; tail < 4; tail++) {
                buf_clear(&text);
                buf_puts(&text, "{\"m\":\"");
                for (size_t i = 0; i < lead; i++)
                    buf_putc(&text, (char)('a' + i % 26));
                buf_puts(&text, bits[k].text);
                for (size_t i = 0; i < tail * 23; i++)
                    buf_putc(&text, 'z');
                buf_puts(&text, "\",\"model\":[\"\\t\"]}");
                assert_int_equal(hold(buf_bytes(&text), DEPTH, lead % 16), bits[k].is_fine);
            }
    buf_fini(&text);
}

/* Blanks before the object move every byte of it through every place of a block; memory moves against both. */
static void at_every_alignment(void **state)
{
    (void)state;
    static const char object[] =
        "{ \"model\" : \"a\\\\\\\"b\\u00e9\xc3\xa9\" , \"messages\" :[ "
        "{\"role\":\"user\",\"content\":\"0123456789012345678901234567"
        "890123456789012345678901234567890123456789012345678901234567890123456789\\n012345678901234567890123456789\"}, "
        "[[],{}, [ ],{ }, -1.5e+3,true,false,null,\"\"]],\"m\":{\"m\":1,\"m\":2},\"x\":\"\\/\\b\\f\\r\\t\"} \r\n\t ";
    struct buf text = {0};
    for (size_t blanks = 0; blanks < JSON_BLOCK; blanks++)
        for (size_t shift = 0; shift < JSON_BLOCK; shift++) {
            buf_clear(&text);
            for (size_t i = 0; i < blanks; i++)
                buf_putc(&text, " \n\t\r"[i % 4]);
            buf_puts(&text, object);
            assert_true(hold(buf_bytes(&text), DEPTH, shift));
        }
    /* and cut anywhere */
    for (size_t n = 0; n < text.n - 5; n++)
        assert_false(hold(bytes_slice(buf_bytes(&text), 0, n), DEPTH, n % 16));
    buf_fini(&text);
}

static void lengths_around_edges(void **state)
{
    (void)state;
    struct buf text = {0};
    for (size_t n = 0; n < 5 * JSON_BLOCK; n++) {
        buf_clear(&text);
        buf_puts(&text, "{\"");
        for (size_t i = 0; i < n; i++)
            buf_putc(&text, 'k');
        buf_puts(&text, "\":\"");
        for (size_t i = 0; i < 2 * n; i++)
            buf_putc(&text, i % 61 == 60 ? ' ' : 'v');
        buf_puts(&text, "\",\"m\":0}");
        assert_true(hold(buf_bytes(&text), DEPTH, n % JSON_BLOCK));
    }
    buf_fini(&text);
}

/* ---- hostile ---- */

static void handed_over(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "}",
                                        " ",
                                        "[]",
                                        "{",
                                        "{}}",
                                        "{}{}",
                                        "{} x }",
                                        "{\"a\":1,}",
                                        "{,}",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\" 1}",
                                        "{\"a\":1 2}",
                                        "{\"a\":[1 2]}",
                                        "{\"a\":[1,]}",
                                        "{\"a\":[}",
                                        "{\"a\":[1}",
                                        "{\"a\":{\"b\":1]}",
                                        "{\"a\":{\"b\":1,}}",
                                        "{\"a\":{1:2}}",
                                        "{\"a\":{\"b\"}}",
                                        "{\"a\":{\"b\":}}",
                                        "{\"a\":{\"b\":},\"c\":1}",
                                        "{\"a\":[[],]}",
                                        "{\"a\":[,1]}",
                                        "{\"a\":{,}}",
                                        "{\"a\":{\"b\":1}",
                                        "{\"a\":{}",
                                        "{\"a\":tru}",
                                        "{\"a\":truer}",
                                        "{\"a\":nul}",
                                        "{\"a\":+1}",
                                        "{\"a\":\"}",
                                        "{\"a\":\"b\\\"}",
                                        "{\"a\":\"b\\}",
                                        "{\"a\":\"b\\u}",
                                        "{\"a\":\"b\\u1}",
                                        "{\"a\":\"b\\u123}",
                                        "{\"a\":\"b\xc3}",
                                        "{\"a\":\"b\xf0\x9f\x9a}",
                                        "{\"a\":\\\"b\"}",
                                        "{\"a\xc3\xa9:1}",
                                        "{\"a\":1\xc3\xa9}",
                                        "{\"m\":1,\"m\":2}",
                                        "{\"m\":1,\"\\u006d\":2}",
                                        "{\"\\u006D\":1,\"m\":2}",
                                        "{\"\\u006d\":1}",
                                        "{\"mod\\u0065l\":1}",
                                        "{\"a\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}"};
    for (size_t i = 0; i < RM_COUNTOF(texts); i++)
        for (size_t shift = 0; shift < 3; shift++)
            assert_false(hold(bytes_of(texts[i]), DEPTH, shift));
    assert_true(hold(BYTES("{\"a\":1,\"a\":2,\"x\":{\"m\":1,\"m\":2}}"), DEPTH, 0));
    assert_true(hold(BYTES("{\"a\":[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]}"), DEPTH, 0));
    assert_true(hold(BYTES("{\"a\":1.2.3e--4}"), DEPTH, 0)); /* nobody here reads it: the provider's 400 */
    assert_true(hold(BYTES("{}"), 0, 0));
}

static void deep(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct buf text = {0};
    for (unsigned levels = 1; levels < 300; levels += 13) {
        buf_clear(&text);
        buf_puts(&text, "{\"m\":");
        for (unsigned i = 1; i < levels; i++)
            buf_puts(&text, i % 3 == 0 ? "{\"k\":" : "[");
        buf_puts(&text, "1");
        for (unsigned i = levels - 1; i > 0; i--)
            buf_putc(&text, i % 3 == 0 ? '}' : ']');
        buf_putc(&text, '}');
        assert_true(hold(buf_bytes(&text), levels, 0));
        assert_int_equal(hold(buf_bytes(&text), levels - 1, 0), levels == 1);
    }
    buf_clear(&text);
    buf_puts(&text, "{\"m\":");
    for (unsigned i = 0; i < N; i++)
        buf_putc(&text, '[');
    buf_putc(&text, '}');
    assert_false(hold(buf_bytes(&text), UINT32_MAX, 0));
    buf_fini(&text);
}

/* Without room for all there is no note at all; with it there are, whatever lies deeper. */
static void index_is_bounded(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,{\"b\":2}],\"c\":\"x\\n\",\"d\":[[[[[[[[1,2,3]]],{}]]]]]}";
    enum { ALL = 9 + 8 };
    for (uint32_t max = 0; max < 2 * ALL; max++) {
        struct json_note *v = malloc((max + 1) * sizeof *v);
        struct json_index index = {.v = v, .max = max, .levels = LEVELS};
        struct json_scan scan;
        assert_true(json_scan_block(bytes_of(text), DEPTH, NULL, 0, &scan, &index));
        assert_int_equal(index.n, max < ALL ? 0 : ALL);
        if (index.n > 0)
            expect_index(bytes_of(text), &index);
        free(v);
    }
}

/* Objects that begin so, or nearly so: near the end of the text and far from it, with room for their notes and without,
 * at levels that are noted and not, nested as deep as may be and deeper. */
static void objects_of_a_form(void **state)
{
    (void)state;
    static const char role[] = "{\"role\":\"user\",\"content\":", spaced[] = "{\"role\": \"user\", \"content\": ";
    static const char *const rows[] = {
        "@\"x\"}",
        "@\"x\",\"name\":[1]}",
        "@ {\"a\":@null}}",
        "@[@{}},@\"\\n\"}]}",
        "@}",
        "@",
        "@@1}}",
        "{\"role\":\"us\\u0065r\",\"content\":1}",
        "{\"role\":\"\xc3\xa9\",\"content\":1}",
        "{\"role\":\"\",\"content\":1}",
        "{\"role\":\"0123456789012345678901234567890\",\"content\":1}",
        "{\"role\":\"01234567890123456789012345678901\",\"content\":1}",
        "{\"role\":\"012345678901234567890123456789012\",\"content\":1}",
        "{\"role\":1,\"content\":1}",
        "{\"role\":\"user\" ,\"content\":1}",
        "{\"role\":\"user\",\"contenT\":1}",
        "{\"role\":\"user\"}",
        "{\"role\":user\",\"content\":1}",
    };
    for (size_t i = 0; i < 2 * RM_COUNTOF(rows); i++) {
        struct buf row = {0}, text = {0};
        for (const char *p = rows[i / 2]; *p != '\0'; p++)
            if (*p == '@')
                buf_puts(&row, i % 2 == 0 ? role : spaced);
            else
                buf_putc(&row, *p);
        for (unsigned pad = 0; pad < 140; pad++) {
            buf_clear(&text);
            buf_printf(&text, "{\"messages\":[%.*s,{}],\"m\":\"%*s\"}", (int)buf_bytes(&row).n, buf_bytes(&row).p,
                       (int)pad, "");
            hold(buf_bytes(&text), DEPTH, 0);
        }
        for (unsigned k = 0; k < 24 * 8 * 6; k++)
            expect_same_notes(buf_bytes(&text), 1 + k % 6, k / 6 % 8, k / 48);
        buf_fini(&row);
        buf_fini(&text);
    }
}

/* What the scan lets through and the tree does not is not strict, and names with escapes are not. */
static void strict_or_not(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_strict;
    } rows[] = {{"{\"a\":0}", true},           {"{\"a\":-0}", true},
                {"{\"a\":10.25e-3}", true},    {"{\"a\":1E9,\"b\":-7}", true},
                {"{\"a\":01}", false},         {"{\"a\":-}", false},
                {"{\"a\":1.}", false},         {"{\"a\":1e}", false},
                {"{\"a\":1e+}", false},        {"{\"a\":1.2.3}", false},
                {"{\"a\":1-2}", false},        {"{\"a\":[-01]}", false},
                {"{\"a\":\"\\u00e9\"}", true}, {"{\"a\":\"\\ud83d\"}", false},
                {"{\"a\":{\"\\n\":1}}", false}};
    struct json_note notes[NOTES];
    for (size_t i = 0; i < RM_COUNTOF(rows); i++) {
        struct json_index index = {.v = notes, .max = NOTES, .levels = LEVELS};
        struct json_scan scan;
        assert_true(json_scan_block(bytes_of(rows[i].text), DEPTH, NULL, 0, &scan, &index));
        assert_int_equal(index.is_strict, rows[i].is_strict);
        expect_index(bytes_of(rows[i].text), &index);
    }
}

/* ---- chance ---- */

static void put_blanks(struct buf *b, struct rng *r)
{
    while (rng_below(r, 6) == 0)
        buf_putc(b, " \n\t\r"[rng_below(r, 4)]);
}

static void put_string(struct buf *b, struct rng *r)
{
    buf_putc(b, '"');
    size_t n = rng_below(r, 4) == 0 ? rng_below(r, 200) : rng_below(r, 9), plain = rng_below(r, 5);
    for (size_t i = 0; i < n; i++)
        if (rng_below(r, 5) < plain)
            buf_putc(b, (char)('!' + 2 + rng_below(r, 50)));
        else
            buf_puts(b, bits[rng_below(r, 17)].text);
    buf_putc(b, '"');
}

static void put_value(struct buf *b, struct rng *r, unsigned levels)
{
    static const char *const words[] = {"true", "false", "null", "0", "-12.5e+7", "1e9", "\"\"", "[]", "{}"};
    bool is_object = rng_below(r, 2) == 0;
    put_blanks(b, r);
    if (levels == 0 || rng_below(r, 3) == 0) {
        if (rng_below(r, 2) == 0)
            put_string(b, r);
        else
            buf_puts(b, words[rng_below(r, RM_COUNTOF(words))]);
    } else {
        size_t n = rng_below(r, 5);
        buf_putc(b, is_object ? '{' : '[');
        for (size_t i = 0; i < n; i++) {
            if (i > 0)
                buf_putc(b, ',');
            put_blanks(b, r);
            if (is_object) {
                put_string(b, r);
                put_blanks(b, r);
                buf_putc(b, ':');
            }
            put_value(b, r, levels - 1);
        }
        buf_putc(b, is_object ? '}' : ']');
    }
    put_blanks(b, r);
}

static void put_body(struct buf *b, struct rng *r)
{
    static const char *const names[] = {"\"model\"", "\"m\"", "\"messages\"", "\"other\"", "\"mode\"", "\"\\u006d\""};
    size_t n = rng_below(r, 5), levels = rng_below(r, 6);
    put_blanks(b, r);
    buf_putc(b, '{');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_putc(b, ',');
        put_blanks(b, r);
        if (rng_below(r, 3) == 0)
            put_string(b, r);
        else
            buf_puts(b, names[rng_below(r, 20) == 0 ? 5 : rng_below(r, 5)]);
        put_blanks(b, r);
        buf_putc(b, ':');
        put_value(b, r, (unsigned)levels);
    }
    buf_putc(b, '}');
    put_blanks(b, r);
}

/* Changes or inserts a byte, takes out a few, or cuts the text. */
static void damage(struct buf *b, struct rng *r)
{
    static const char odd[] = "\"\"\\\\{}[],:\n\x01\x80\xc3\xe2\xed\xff u0tn1";
    size_t at = rng_below(r, b->n), n;
    switch (rng_below(r, 4)) {
    case 0:
        b->p[at] = odd[rng_below(r, sizeof odd - 1)];
        break;
    case 1:
        n = rng_between(r, 1, 6);
        n = n < b->n - at ? n : b->n - at;
        memmove(b->p + at, b->p + at + n, b->n - at - n);
        b->n -= n;
        break;
    case 2:
        buf_putc(b, 0);
        memmove(b->p + at + 1, b->p + at, b->n - at - 1);
        b->p[at] = odd[rng_below(r, sizeof odd - 1)];
        break;
    default:
        b->n = at;
    }
}

static void by_chance(void **state)
{
    (void)state;
    enum { CASES = 100000 };
    struct buf text = {0};
    size_t n_taken = 0, n_whole = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct rng r = {seed};
        bool is_damaged = seed % 2 == 0;
        buf_clear(&text);
        put_body(&text, &r);
        for (uint64_t i = rng_below(&r, 3) + 1; is_damaged && i > 0 && text.n > 0; i--)
            damage(&text, &r);
        bool is_taken = hold(buf_bytes(&text), DEPTH, rng_below(&r, 16));
        n_whole += !is_damaged;
        n_taken += !is_damaged && is_taken;
    }
    buf_fini(&text);
    assert_true(n_taken > n_whole / 2); /* the rest: names that stand twice or have escapes */
}

/* One string alone, as the reader byte by byte has it; of halves of surrogate pairs it says nothing,
 * nor beside what is no text. */
static bool hold_string(struct bytes text, size_t at)
{
    struct json_string s;
    struct arena a = {0};
    size_t n;
    uint32_t less;
    char *copy = mem_dup(text.p, text.n); /* with its end where a sanitizer sees it */
    struct bytes rest = bytes_from(copy + at, text.n - at);
    bool is_string = json_string_read_any(rest, &s),
         is_taken = json_block_string(bytes_from(copy, text.n), at, &n, &less);
    assert_true(is_string || !is_taken);
    if (is_taken) {
        assert_int_equal(n, s.n);
        assert_int_equal(n - less, json_string_value(bytes_slice(rest, 0, n), s.has_escapes, &a).n);
    } else if (is_string) {
        assert_true(bytes_find_nocase(bytes_slice(rest, 0, s.n), BYTES("\\ud")) != SIZE_MAX || !bytes_is_utf8(text));
    }
    arena_fini(&a);
    mem_free(copy);
    return is_taken;
}

static void strings_alone(void **state)
{
    (void)state;
    enum { CASES = 50000 };
    struct buf text = {0};
    size_t n_taken = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct rng r = {seed};
        buf_clear(&text);
        for (uint64_t n = rng_below(&r, 3) * rng_below(&r, 70); n > 0; n--)
            buf_putc(&text, 'x');
        size_t at = text.n + 1;
        put_string(&text, &r);
        for (uint64_t n = rng_below(&r, 3) * rng_below(&r, 70); n > 0; n--)
            buf_putc(&text, '}');
        if (seed % 2 == 0)
            damage(&text, &r);
        n_taken += at <= text.n && text.p[at - 1] == '"' && hold_string(buf_bytes(&text), at);
    }
    buf_fini(&text);
    assert_true(n_taken > CASES / 4);
}

int main(void)
{
#if defined(RM_BLOCK_WIDE)
    if (!json_can_wide())
        return 77; /* skipped */
#endif
    const struct CMUnitTest tests[] = {
#if defined(RM_BLOCK_WIDE)
        cmocka_unit_test(utf8_by_vectors),
#endif
        cmocka_unit_test(every_byte_in_every_place),
        cmocka_unit_test(bits_by_chance),
        cmocka_unit_test(escaped_bytes),
        cmocka_unit_test(at_every_place),
        cmocka_unit_test(at_every_alignment),
        cmocka_unit_test(lengths_around_edges),
        cmocka_unit_test(handed_over),
        cmocka_unit_test(deep),
        cmocka_unit_test(index_is_bounded),
        cmocka_unit_test(objects_of_a_form),
        cmocka_unit_test(strict_or_not),
        cmocka_unit_test(by_chance),
        cmocka_unit_test(strings_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
