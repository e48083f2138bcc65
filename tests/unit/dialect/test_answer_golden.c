/* Golden cases of answers: tests/golden/answer/<case>/ holds what came from the provider and what must come of it.
 *
 *     case            lines "dialect openai", "vendor groq", "strips", "usage"
 *     upstream.sse    or upstream.json
 *     events          one line per event
 *     chat.sse  messages.sse  chat.json  messages.json      what clients get by translation
 *     collected.json                                        what a waiting client of the same dialect gets of a stream
 *
 * With ANSWER_BLESS=1 in the environment the expectations are written instead of compared: read the difference. */
#include "unit.h"

#include "answer_kit.h"
#include "base/mem.h"

#include <dirent.h>

struct golden {
    char folder[512];
    const struct dialect *dialect;
    char vendor[32];
    bool strips, wants_usage, is_stream;
    struct buf upstream;
};

static bool blesses(void)
{
    return getenv("ANSWER_BLESS") != NULL;
}

static void read_line(struct golden *g, struct bytes line)
{
    struct bytes value = line, key = bytes_cut(&value, ' ');
    if (bytes_is(key, "dialect"))
        g->dialect = bytes_is(value, "anthropic") ? &kit_anthropic : &kit_openai;
    else if (bytes_is(key, "vendor"))
        failure_text(g->vendor, sizeof g->vendor, value);
    else if (bytes_is(key, "strips"))
        g->strips = true;
    else if (bytes_is(key, "usage"))
        g->wants_usage = true;
    else
        assert_true(key.n == 0 || key.p[0] == '#');
}

static void load(struct golden *g, const char *root, const char *name)
{
    struct buf text = {0};
    char path[600];
    *g = (struct golden){.dialect = NULL};
    snprintf(g->folder, sizeof g->folder, "%s/%s", root, name);
    snprintf(path, sizeof path, "%s/case", g->folder);
    assert_true(kit_read(path, &text));
    struct bytes rest = buf_bytes(&text);
    while (rest.n > 0)
        read_line(g, bytes_trim(bytes_cut(&rest, '\n')));
    buf_fini(&text);
    assert_non_null(g->dialect);
    snprintf(path, sizeof path, "%s/upstream.sse", g->folder);
    g->is_stream = kit_read(path, &g->upstream);
    snprintf(path, sizeof path, "%s/upstream.json", g->folder);
    assert_true(g->is_stream || kit_read(path, &g->upstream));
}

/* Runs the case; lines, the four kinds of client bytes, and what was collected. */
static void run(const struct golden *g, size_t cut, size_t step, struct buf *lines, struct buf bytes[5])
{
    struct decoder d;
    struct collector c;
    struct encoder e[4];
    struct kit_sink sink = {.lines = lines, .n_encoders = 4};
    decoder_init(&d, g->dialect, bytes_of(g->vendor), KIT_DEPTH, g->strips);
    for (int i = 0; i < 4; i++) {
        struct encoder_options o = {.is_stream = i < 2,
                                    .wants_usage = g->wants_usage,
                                    .model = BYTES("target-model"),
                                    .created_wall_s = 1796000000,
                                    .id_seed = 0x1234};
        encoder_init(&e[i], i % 2 ? &kit_anthropic : &kit_openai, &o);
        sink.encoders[i] = &e[i];
        sink.bytes[i] = &bytes[i];
    }
    struct encoder_options o = {.model = BYTES("target-model"), .created_wall_s = 1796000000, .id_seed = 0x1234};
    collector_init(&c, g->dialect, &o);
    sink.collector = &c;
    if (g->is_stream) {
        kit_stream(&d, buf_bytes(&g->upstream), cut, step, &sink);
    } else {
        struct decoded out;
        decoder_whole(&d, buf_bytes(&g->upstream), &out);
        kit_take(&sink, &out);
    }
    buf_printf(lines, "complete=%d\n", decoder_is_complete(&d));
    for (int i = 0; i < 4; i++) {
        if (decoder_is_complete(&d))
            encoder_end(&e[i], &bytes[i]);
        size_t before = bytes[i].n;
        if (decoder_is_complete(&d))
            encoder_end(&e[i], &bytes[i]);
        assert_int_equal(bytes[i].n, before); /* an answer ends once */
        encoder_fini(&e[i]);
    }
    if (g->is_stream && decoder_is_complete(&d)) {
        collector_end(&c, &bytes[4]);
        size_t before = bytes[4].n;
        collector_end(&c, &bytes[4]);
        assert_int_equal(bytes[4].n, before);
    }
    collector_fini(&c);
    decoder_fini(&d);
}

static void expect(const struct golden *g, const char *file, const struct buf *got)
{
    char path[600];
    struct buf want = {0};
    snprintf(path, sizeof path, "%s/%s", g->folder, file);
    if (blesses()) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        fwrite(got->p ? got->p : "", 1, got->n, f);
        fclose(f);
        return;
    }
    if (!kit_read(path, &want))
        fail_msg("%s is missing", path);
    if (!bytes_eq(buf_bytes(got), buf_bytes(&want)))
        fail_msg("%s differs; got:\n%.*s", path, (int)got->n, got->p ? got->p : "");
    buf_fini(&want);
}

static void check_case(const char *root, const char *name)
{
    static const char *const files[] = {"chat.sse", "messages.sse", "chat.json", "messages.json", "collected.json"};
    struct golden g;
    struct buf lines = {0}, bytes[5] = {{0}};
    load(&g, root, name);
    run(&g, g.upstream.n, 0, &lines, bytes);
    expect(&g, "events", &lines);
    for (int i = 0; i < (g.is_stream ? 5 : 4); i++) {
        expect(&g, files[i], &bytes[i]);
        buf_fini(&bytes[i]);
    }
    buf_fini(&lines);
    buf_fini(&g.upstream);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Calls fn for each case, in the order of names; returns how many there are. */
static size_t each_case(void (*fn)(const char *root, const char *name))
{
    char root[512], *names[512];
    const char *source = getenv("RINGMAIN_SOURCE");
    size_t n = 0;
    snprintf(root, sizeof root, "%s/tests/golden/answer", source ? source : ".");
    DIR *dir = opendir(root);
    assert_non_null(dir);
    for (struct dirent *e; n < 512 && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.')
            names[n++] = mem_dup(e->d_name, strlen(e->d_name));
    closedir(dir);
    qsort(names, n, sizeof names[0], by_name);
    for (size_t i = 0; i < n; i++) {
        fn(root, names[i]);
        mem_free(names[i]);
    }
    return n;
}

static void every_case_gives_what_it_says(void **state)
{
    (void)state;
    assert_true(each_case(check_case) >= 25);
}

static void check_splits(const char *root, const char *name)
{
    struct golden g;
    struct buf whole = {0}, bytes[5] = {{0}};
    load(&g, root, name);
    run(&g, g.upstream.n, 0, &whole, bytes);
    size_t most = g.is_stream ? g.upstream.n : 0;
    for (size_t cut = 1; cut <= most; cut++) {
        struct buf lines = {0}, parts[5] = {{0}};
        run(&g, cut, cut == most ? 1 : 0, &lines, parts);
        assert_true(bytes_eq(buf_bytes(&lines), buf_bytes(&whole)));
        buf_fini(&lines);
        for (int i = 0; i < 5; i++) {
            assert_true(bytes_eq(buf_bytes(&parts[i]), buf_bytes(&bytes[i])));
            buf_fini(&parts[i]);
        }
    }
    for (int i = 0; i < 5; i++)
        buf_fini(&bytes[i]);
    buf_fini(&whole);
    buf_fini(&g.upstream);
}

static void every_split_gives_the_same(void **state)
{
    (void)state;
    each_case(check_splits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_gives_what_it_says),
        cmocka_unit_test(every_split_gives_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
