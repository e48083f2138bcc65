/* Runs tests/golden/request: each folder has what a client sent (client.json), what is known of the target and expected
 * of the answer besides the body (target.txt), and the body that the provider must get, byte for byte (expected.json).
 */
#include "unit.h"

#include "request_case.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILE_MAX = 1 << 20, SET_MAX = 8 };

struct golden {
    const struct dialect *client, *target;
    struct profile profile;
    struct set_member set[SET_MAX];
    struct bytes drop[SET_MAX];
    struct bytes adjusted, refused;
};

static bool read_file(const char *folder, const char *name, const char *file, struct buf *out)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return false;
    char *p = buf_reserve(out, FILE_MAX);
    buf_grew(out, fread(p, 1, FILE_MAX, f));
    fclose(f);
    return true;
}

static uint8_t quirk_named(struct bytes name)
{
    static const struct {
        const char *name;
        enum quirk quirk;
    } rows[] = {{"no_stream_options", QUIRK_NO_STREAM_OPTIONS},
                {"max_completion_tokens", QUIRK_MAX_COMPLETION_TOKENS},
                {"max_tokens", QUIRK_MAX_TOKENS},
                {"no_sampling", QUIRK_NO_SAMPLING}};
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (bytes_is(name, rows[i].name))
            return (uint8_t)rows[i].quirk;
    fail_msg("unknown quirk %.*s", (int)name.n, name.p);
    return 0;
}

static int64_t number_of(struct bytes v)
{
    int64_t n = 0;
    assert_true(bytes_to_i64(v, &n));
    return n;
}

static const struct dialect *dialect_named(struct bytes v)
{
    return bytes_is(v, "openai") ? &chat : &messages;
}

static void apply_line(struct golden *g, struct bytes key, struct bytes value)
{
    struct profile *p = &g->profile;
    struct bytes rest = value;
    if (bytes_is(key, "client"))
        g->client = dialect_named(value);
    else if (bytes_is(key, "target"))
        g->target = dialect_named(value);
    else if (bytes_is(key, "model"))
        p->model = value;
    else if (bytes_is(key, "vendor"))
        p->vendor = value;
    else if (bytes_is(key, "stream"))
        p->is_stream = bytes_is(value, "true");
    else if (bytes_is(key, "adds_usage"))
        p->adds_usage = bytes_is(value, "true");
    else if (bytes_is(key, "retention"))
        p->takes_retention = bytes_is(value, "true");
    else if (bytes_is(key, "withhold"))
        p->withholds_cache = bytes_is(value, "true");
    else if (bytes_is(key, "cache_key"))
        p->cache_key = value;
    else if (bytes_is(key, "quirk"))
        p->quirks |= quirk_named(value);
    else if (bytes_is(key, "max_output"))
        p->max_output = number_of(value);
    else if (bytes_is(key, "cache_ttl"))
        p->cache_ttl_s = number_of(value);
    else if (bytes_is(key, "adjusted"))
        g->adjusted = value;
    else if (bytes_is(key, "refused"))
        g->refused = value;
    else if (bytes_is(key, "drop"))
        g->drop[p->n_drop++] = value;
    else if (bytes_is(key, "set"))
        g->set[p->n_set++] = (struct set_member){.name = bytes_cut(&rest, ' '), .json = rest};
    else
        fail_msg("unknown line %.*s", (int)key.n, key.p);
}

static void read_golden(struct golden *g, struct bytes text)
{
    *g = (struct golden){.client = &chat, .target = &chat};
    g->profile.set = g->set;
    g->profile.drop = g->drop;
    g->profile.vendor = BYTES("generic");
    for (int i = 0; i < 64 && text.n > 0; i++) {
        struct bytes line = bytes_trim(bytes_cut(&text, '\n'));
        struct bytes key = bytes_cut(&line, ' ');
        if (key.n > 0)
            apply_line(g, key, line);
    }
}

static void check_same(const char *name, const char *what, struct bytes got, struct bytes want)
{
    if (!bytes_eq(got, want))
        fail_msg("%s: %s\n got: %.*s\nwant: %.*s", name, what, (int)got.n, got.p, (int)want.n, want.p);
}

static void run_case(const char *folder, const char *name)
{
    struct buf client = {0}, target = {0}, expected = {0};
    struct golden g;
    struct built b, again;
    assert_true(read_file(folder, name, "client.json", &client));
    assert_true(read_file(folder, name, "target.txt", &target));
    bool has_expected = read_file(folder, name, "expected.json", &expected);
    read_golden(&g, buf_bytes(&target));
    built_init(&b, g.client, g.target, bytes_trim(buf_bytes(&client)), &g.profile);
    built_init(&again, g.client, g.target, bytes_trim(buf_bytes(&client)), &g.profile);
    if (g.refused.n > 0) {
        if (b.err != ERR_UNSUPPORTED || bytes_find(bytes_of(b.why), g.refused) == SIZE_MAX)
            fail_msg("%s: refused with %s, \"%s\"", name, err_text(b.err), b.why);
    } else {
        if (b.err != ERR_OK)
            fail_msg("%s: %s, \"%s\"", name, err_text(b.err), b.why);
        assert_true(has_expected);
        check_same(name, "body", b.body, bytes_trim(buf_bytes(&expected)));
        check_same(name, "adjusted", buf_bytes(&b.adjusted), g.adjusted);
        check_same(name, "second body", again.body, b.body);
    }
    built_fini(&b);
    built_fini(&again);
    buf_fini(&client);
    buf_fini(&target);
    buf_fini(&expected);
}

static int is_visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static void golden_cases(void **state)
{
    (void)state;
    char folder[1024];
    const char *source = getenv("RINGMAIN_SOURCE");
    assert_non_null(source);
    snprintf(folder, sizeof folder, "%s/tests/golden/request", source);
    struct dirent **list;
    int n = scandir(folder, &list, is_visible, alphasort);
    assert_true(n >= 25);
    for (int i = 0; i < n; i++) {
        run_case(folder, list[i]->d_name);
        free(list[i]);
    }
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
