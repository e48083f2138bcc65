/* The reader gives the same events at every split, and its raws concatenate to the input. */
#include "unit.h"

#include "codec/sse.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

/* Events as text: "name|data;" per event, "C;" per comment. */
static void drain(struct sse *s, struct buf *log, struct buf *raw)
{
    struct sse_event ev;
    enum sse_result r;
    while ((r = sse_next(s, &ev)) != SSE_MORE) {
        assert_int_not_equal(r, SSE_TOO_LARGE);
        buf_put(raw, ev.raw);
        if (r == SSE_COMMENT) {
            buf_puts(log, "C;");
            continue;
        }
        buf_put(log, ev.name);
        buf_putc(log, '|');
        buf_put(log, ev.data);
        buf_putc(log, ';');
        if (ev.is_verbatim)
            assert_true(ev.data.n == 0 || (ev.data.p >= ev.raw.p && ev.data.p + ev.data.n <= ev.raw.p + ev.raw.n));
    }
}

/* Reads `in` cut at each of the n offsets. */
static void read_cut(struct bytes in, const size_t *cuts, size_t n, struct buf *log)
{
    struct sse s;
    struct buf raw = {0};
    struct sse_event ev;
    size_t at = 0;
    sse_init(&s, 8u << 20);
    buf_clear(log);
    for (size_t i = 0; i <= n; i++) {
        size_t to = i < n ? cuts[i] : in.n;
        /* a copy of exactly this size: reading past it is seen */
        char *part = malloc(to - at ? to - at : 1);
        memcpy(part, in.p + at, to - at);
        sse_feed(&s, bytes_from(part, to - at));
        drain(&s, log, &raw);
        free(part);
        at = to;
    }
    if (!s.rest_is_done)
        buf_put(&raw, buf_bytes(&s.rest)); /* an unfinished event, or trailing empty lines */
    if (sse_end(&s, &ev)) {
        buf_puts(log, "end|");
        buf_put(log, ev.data);
    }
    assert_true(bytes_eq(buf_bytes(&raw), in));
    buf_fini(&raw);
    sse_fini(&s);
}

static void read_bytewise(struct bytes in, struct buf *log)
{
    size_t *cuts = malloc((in.n + 1) * sizeof *cuts);
    for (size_t i = 0; i < in.n; i++)
        cuts[i] = i;
    read_cut(in, cuts, in.n, log);
    free(cuts);
}

/* Every offset up to 4 KB, around event boundaries beyond, and bytewise. */
static void splits(struct bytes in)
{
    struct buf whole = {0}, got = {0};
    read_cut(in, NULL, 0, &whole);
    for (size_t i = 1; i < in.n; i++) {
        bool is_near = in.p[i] == '\n' || in.p[i - 1] == '\n' || (i > 2 && in.p[i - 3] == '\n') ||
                       (i + 2 < in.n && in.p[i + 2] == '\n');
        if (i > 4096 && !is_near)
            continue;
        if (i > 4096 && i > 24000)
            break;
        read_cut(in, &i, 1, &got);
        assert_true(bytes_eq(buf_bytes(&whole), buf_bytes(&got)));
    }
    read_bytewise(in, &got);
    assert_true(bytes_eq(buf_bytes(&whole), buf_bytes(&got)));
    buf_fini(&whole);
    buf_fini(&got);
}

static void forms(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"data: 1\n\n", "|1;"},
        {"data:1\n\ndata:  1\n\n", "|1;| 1;"},
        {"\xef\xbb\xbf"
         "data: 1\n\n",
         "|1;"},
        {"data: 1\r\n\r\ndata: 2\r\rdata: 3\n\r\n", "|1;|2;|3;"},
        {"event: x\nid: 7\nretry: 10\ndata: a\ndata: b\ndata\n\n", "x|a\nb\n;"},
        {": hi\n\n: ho\ndata: 1\n\n", "C;|1;"},
        {"\n\n\ndata: 1\n\n\n\n", "|1;"},
        {"error: {\"m\":1}\n\n", "error|{\"m\":1};"},
        {"event: ping\n\n", "ping|;"},
        {"data: [DONE]", "end|[DONE]"},
        {"data: 1\n", "end|1"},
        {"data: na\xc3\xafve \xf0\x9f\x9a\x8b \xe2\x80\xa8\n\n", "|na\xc3\xafve \xf0\x9f\x9a\x8b \xe2\x80\xa8;"},
        {"dat: 1\nfoo\n\ndata: 2\n\n", "C;|2;"},
        {"", ""},
    };
    for (size_t i = 0; i < RM_COUNTOF(cases); i++) {
        struct buf log = {0};
        read_cut(bytes_of(cases[i].in), NULL, 0, &log);
        assert_string_equal(buf_cstr(&log), cases[i].want);
        splits(bytes_of(cases[i].in));
        buf_fini(&log);
    }
}

static void is_bounded(void **state)
{
    (void)state;
    struct sse s;
    struct sse_event ev;
    char line[64];
    memset(line, 'x', sizeof line);
    sse_init(&s, 1000);
    int n = 0;
    enum sse_result r = SSE_MORE;
    for (; n < 100 && r == SSE_MORE; n++) {
        sse_feed(&s, bytes_from(line, sizeof line));
        r = sse_next(&s, &ev);
    }
    assert_int_equal(r, SSE_TOO_LARGE);
    assert_true(n * (int)sizeof line <= 1000 + 64);
    sse_fini(&s);

    struct buf big = {0};
    buf_puts(&big, "data: ");
    for (int i = 0; i < 2000; i++)
        buf_putc(&big, 'x');
    buf_puts(&big, "\n\n");
    sse_init(&s, 1000);
    sse_feed(&s, buf_bytes(&big));
    assert_int_equal(sse_next(&s, &ev), SSE_TOO_LARGE);
    sse_fini(&s);
    sse_init(&s, 5000);
    sse_feed(&s, buf_bytes(&big));
    assert_int_equal(sse_next(&s, &ev), SSE_EVENT);
    assert_int_equal(ev.data.n, 2000);
    sse_fini(&s);
    buf_fini(&big);
}

static bool read_file(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return false;
    char part[65536];
    size_t n;
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        buf_put(out, bytes_from(part, n));
    fclose(f);
    return true;
}

static void recorded(void **state)
{
    (void)state;
    const char *root = getenv("RINGMAIN_FIXTURES");
    DIR *top = root ? opendir(root) : NULL;
    if (top == NULL) {
        print_message("skipped: no recorded fixtures\n");
        skip();
    }
    int n = 0;
    for (struct dirent *d; (d = readdir(top)) != NULL;) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", root, d->d_name);
        DIR *dir = d->d_name[0] == '.' ? NULL : opendir(path);
        for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
            if (!bytes_ends_with(bytes_of(e->d_name), BYTES(".sse")))
                continue;
            struct buf in = {0};
            snprintf(path, sizeof path, "%s/%s/%s", root, d->d_name, e->d_name);
            assert_true(read_file(path, &in));
            splits(buf_bytes(&in));
            buf_fini(&in);
            n++;
        }
        if (dir != NULL)
            closedir(dir);
    }
    closedir(top);
    print_message("%d recorded streams\n", n);
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms), cmocka_unit_test(is_bounded),
                                       cmocka_unit_test(recorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
