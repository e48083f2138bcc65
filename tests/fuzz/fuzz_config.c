/* Any bytes as a configuration: either a snapshot whose references are whole, or faults with places in the file.
 * Secrets do not show in the faults. */
#include "fuzz.h"

#include "config/config.h"

#include <dlfcn.h>

/* libfyaml 0.7 forgets a buffer of its own when a text ends inside some of its tokens. Who forgot is known only while
 * the library is there: it is opened once more than it is closed, which also spares each text the loading. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml";
}

#define SECRET "sk-9f3c-of-the-environment"

static const char *look_up(const char *name, void *arg)
{
    if (strcmp(name, "KEY") == 0)
        return SECRET;
    return strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

static void no_fare(const char *provider, const char *vendor, const char *model, struct arena *a, struct fare *out,
                    void *arg)
{
}

static enum err no_file(const char *path, struct arena *a, struct bytes *out)
{
    return ERR_IO;
}

static size_t count_lines(struct bytes in)
{
    size_t n = 1;
    for (size_t i = 0; i < in.n; i++)
        n += in.p[i] == '\n' || in.p[i] == '\r';
    return n;
}

static void check_snapshot(struct config *c)
{
    RM_ASSERT(c->workers >= 1 && c->listen != NULL);
    for (size_t i = 0; i < c->n_providers; i++) {
        const struct provider_conf *p = &c->providers[i];
        RM_ASSERT(p->index == i && p->url.host[0] != '\0' && p->url.port != 0);
        RM_ASSERT(config_provider(c, bytes_of(p->name)) == p);
    }
    for (size_t i = 0; i < c->n_routes; i++) {
        const struct route_conf *r = &c->routes[i];
        RM_ASSERT(r->n_links > 0 && config_route(c, bytes_of(r->model)) == r);
        for (size_t k = 0; k < r->n_links; k++) {
            const struct link_conf *l = &r->links[k];
            RM_ASSERT(l->provider >= c->providers && l->provider < c->providers + c->n_providers);
            RM_ASSERT(l->model[0] != '\0' && l->index == k && l->ttft_budget_ms > 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const dialects[] = {"openai", "anthropic", NULL}, *const vendors[] = {"openai", "generic", NULL};
    static const struct config_known known = {.dialects = dialects,
                                              .vendors = vendors,
                                              .cores = 4,
                                              .memory_bytes = UINT64_C(8) << 30,
                                              .getenv = look_up,
                                              .fare = no_fare};
    static void *library;
    if (library == NULL)
        library = dlopen("libfyaml.so.0", RTLD_NOW);
    struct bytes in = bytes_from(data, size);
    struct config *c = NULL;
    struct config_faults faults = {0};
    enum err e = config_parse(in, "ringmain.yaml", &known, no_file, &c, &faults);
    RM_ASSERT((e == ERR_OK) == (c != NULL) && (e == ERR_OK) == (faults.n_errors == 0));
    RM_ASSERT(faults.n_errors <= faults.n);
    size_t n_lines = count_lines(in);
    for (size_t i = 0; i < faults.n; i++)
        RM_ASSERT(faults.v[i].message[0] != '\0' && faults.v[i].line <= n_lines + 1);
    struct buf text = {0};
    config_faults_text(&faults, &text);
    if (bytes_find(in, BYTES("sk-9")) == SIZE_MAX) /* the fuzzer learns it from this very comparison */
        RM_ASSERT(bytes_find(buf_bytes(&text), BYTES(SECRET)) == SIZE_MAX);
    buf_fini(&text);
    if (c != NULL)
        check_snapshot(c);
    config_unref(c);
    config_faults_fini(&faults);
    return 0;
}
