/* Loads a text as the program would, with a pretend environment, files and price book. */
#ifndef RM_TESTS_CONFIG_LOADING_H
#define RM_TESTS_CONFIG_LOADING_H

#include "base/mem.h"
#include "config/config.h"
#include "price/price.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const loading_dialects[] = {"openai", "anthropic", NULL};
static const char *const loading_vendors[] = {"openai", "anthropic", "together", "generic", NULL};
static const struct price loading_cheap = {1000000, 2000000, -1, -1, -1, "book-1", "t", NULL};
static const struct price loading_dear = {5000000, 30000000, 500000, -1, -1, "book-1", "t", NULL};

static inline const char *loading_getenv(const char *name, void *arg)
{
    static const char *const vars[][2] = {{"KEY", "sk-hush-1"},   {"EMPTY", ""},     {"PORT", "9090"},
                                          {"NESTED", "${KEY}"},   {"YAML", "a: [b"}, {"BUDGET", "777"},
                                          {"SPACED", "sk hush 2"}};
    for (size_t i = 0; i < sizeof vars / sizeof vars[0]; i++)
        if (strcmp(name, vars[i][0]) == 0)
            return vars[i][1];
    return NULL;
}

static inline void loading_put(const struct price *p, struct arena *a, struct fare *out)
{
    const struct fare_span span = {"", INT64_MIN, INT64_MAX, PRICE_LAYER_BUILTIN, price_keep(p, a)};
    fare_put(out, a, &span);
}

static inline void loading_fare(const char *provider, const char *vendor, const char *model, struct arena *a,
                                struct fare *out, void *arg)
{
    if (strcmp(model, "cheap") == 0 || (strcmp(vendor, "together") == 0 && strcmp(model, "by-vendor") == 0))
        loading_put(&loading_cheap, a, out);
    else if (strcmp(model, "dear") == 0)
        loading_put(&loading_dear, a, out);
}

static inline struct bytes loading_vendor(struct bytes host)
{
    return bytes_is(host, "api.together.xyz") ? BYTES("together") : BYTES("generic");
}

static inline enum err loading_read(const char *path, struct arena *a, struct bytes *out)
{
    static const char *const files[][2] = {{"/etc/rm/key.txt", "sk-from-file\n"},
                                           {"/etc/rm/open.txt", "sk-open\r\n"},
                                           {"/etc/rm/empty.txt", "\n"},
                                           {"/etc/rm/two.txt", "sk-a\nsk-b\n"},
                                           {"/etc/rm/ca.pem", "certificates"},
                                           {"/etc/rm/bad.json", "{\"version\":\"v\",\"prices\":[\n{}]}"},
                                           {"/etc/rm/mine.json",
                                            "{\"version\":\"mine-1\",\"prices\":["
                                            "{\"names\":[\"together/dear\"],\"input\":\"3\",\"output\":\"4\","
                                            "\"valid_from\":\"2026-07-18\",\"tiers\":[{\"above\":9,\"input\":\"7\"}]},"
                                            "{\"names\":[\"own\"],\"input\":\"8\",\"output\":\"9\"}]}"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(path, files[i][0]) == 0) {
            *out = arena_dup(a, bytes_of(files[i][1]));
            return ERR_OK;
        }
    return ERR_IO;
}

static inline bool loading_is_open(const char *path)
{
    return strcmp(path, "/etc/rm/open.txt") == 0;
}

struct loading {
    struct config *c;
    struct config_faults faults;
    struct buf text; /* of the faults */
    enum err err;
};

static inline struct loading load_text(const char *text)
{
    const struct config_known known = {.dialects = loading_dialects,
                                       .vendors = loading_vendors,
                                       .cores = 16,
                                       .memory_bytes = UINT64_C(8) << 30,
                                       .getenv = loading_getenv,
                                       .fare = loading_fare,
                                       .wall_ms = INT64_C(1784332800000), /* 2026-07-18 */
                                       .vendor_from_host = loading_vendor,
                                       .is_world_readable = loading_is_open};
    struct loading l = {0};
    l.err = config_parse(bytes_of(text), "/etc/rm/ringmain.yaml", &known, loading_read, &l.c, &l.faults);
    config_faults_text(&l.faults, &l.text);
    buf_cstr(&l.text);
    assert_true((l.c != NULL) == (l.err == ERR_OK));
    assert_true((l.faults.n_errors > 0) == (l.err != ERR_OK));
    return l;
}

static inline void loading_fini(struct loading *l)
{
    config_unref(l->c);
    config_faults_fini(&l->faults);
    buf_fini(&l->text);
    for (unsigned t = 0; t < MEM_N_TYPES; t++)
        assert_int_equal(mem_live((enum mem_type)t), 0);
}

/* Loads, and holds that the faults' text has `part`; for text that is fine part is "". */
static inline void expect_fault(const char *text, const char *part)
{
    struct loading l = load_text(text);
    if (strstr(buf_cstr(&l.text), part) == NULL || (part[0] != '\0' && l.text.n == 0)) {
        print_error("expected: %s\n in:\n%s\n of:\n%s\n", part, l.text.p, text);
        fail();
    }
    if (part[0] == '\0' && l.text.n > 0) {
        print_error("expected no fault, got:\n%s\n of:\n%s\n", l.text.p, text);
        fail();
    }
    assert_null(strstr(buf_cstr(&l.text), "hush"));
    loading_fini(&l);
}

/* One provider `a` at http:// (so that it needs no key) and a route of it; the text is put between. */
#define WITH(extra) "providers:\n  a: {dialect: openai, base_url: \"http://127.0.0.1:9101/v1\"}\n" extra
#define ROUTE "routes: [{model: m, order: [a]}]\n"
#define PROVIDER(members) "providers: {a: {dialect: openai, base_url: \"http://h/v1\", " members "}}\n" ROUTE
#define IN_ROUTE(members) WITH("routes: [{model: m, order: [a], " members "}]\n")
#define IN_LINK(members) WITH("routes: [{model: m, chain: [{provider: a, " members "}]}]\n")

#endif
