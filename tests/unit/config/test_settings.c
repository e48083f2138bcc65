/* The table, and the page that comes from it. */
#include "unit.h"

#include "base/buf.h"
#include "config/settings.h"

#include <stdio.h>
#include <stdlib.h>

static void rows_are_sound(void **state)
{
    size_t n;
    const struct setting *rows = settings_rows(&n);
    assert_true(n > 80);
    for (size_t i = 0; i < n; i++) {
        assert_true(rows[i].min <= rows[i].max || rows[i].max == 0);
        assert_true(rows[i].text[0] != '\0');
        for (size_t k = 0; k < i; k++)
            assert_false(rows[i].section == rows[k].section && strcmp(rows[i].name, rows[k].name) == 0);
    }
}

/* Every default can be parsed by its own row (asserted inside). */
static void defaults_parse(void **state)
{
    struct arena a = {0};
    struct config_faults faults = {0};
    struct fault_log log = {.faults = &faults, .file = "x"};
    struct settings_reader r = {&log, &a, 1 << 30};
    for (unsigned s = 0; s < SECTION_N; s++) {
        char *values = arena_alloc(&a, 1024);
        settings_defaults(&r, (enum section)s, values);
    }
    assert_int_equal(faults.n, 0);
    arena_fini(&a);
    config_faults_fini(&faults);
}

/* RINGMAIN_SOURCE/docs/settings.md is the generated text. Write it anew: RINGMAIN_WRITE_DOCS=1 in the environment. */
static void page_is_the_generated_one(void **state)
{
    const char *source = getenv("RINGMAIN_SOURCE");
    if (source == NULL) {
        print_message("skipped: no source folder\n");
        skip();
    }
    struct buf want = {0}, path = {0}, have = {0};
    config_settings_doc(&want);
    buf_printf(&path, "%s/docs/settings.md", source);
    if (getenv("RINGMAIN_WRITE_DOCS") != NULL) {
        FILE *out = fopen(buf_cstr(&path), "w");
        assert_non_null(out);
        assert_int_equal(fwrite(want.p, 1, want.n, out), want.n);
        fclose(out);
    }
    FILE *in = fopen(buf_cstr(&path), "r");
    assert_non_null(in);
    char *room = buf_reserve(&have, want.n + 65536);
    buf_grew(&have, fread(room, 1, want.n + 65536, in));
    fclose(in);
    assert_string_equal(buf_cstr(&have), buf_cstr(&want));
    buf_fini(&want);
    buf_fini(&path);
    buf_fini(&have);
}

static void page_names_every_setting(void **state)
{
    struct buf page = {0};
    size_t n;
    const struct setting *rows = settings_rows(&n);
    config_settings_doc(&page);
    for (size_t i = 0; i < n; i++) {
        struct buf cell = {0};
        buf_printf(&cell, "| `%s` |", rows[i].name);
        assert_non_null(strstr(buf_cstr(&page), buf_cstr(&cell)));
        buf_fini(&cell);
    }
    buf_fini(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(defaults_parse),
        cmocka_unit_test(page_is_the_generated_one),
        cmocka_unit_test(page_names_every_setting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
