#include "cmd/prices.h"

#include "base/mem.h"
#include "cmd/load.h"
#include "dialect/dialect.h"

#include <errno.h>
#include <stdio.h>

enum { BOOK_BYTES_MAX = 64 << 20 };

struct prices {
    const struct config *config;
    struct price_book *own, *builtin;
    struct arena arena;
    struct known *known;
};

static enum err read_book(struct prices *p, const char *file, char *message, size_t cap)
{
    struct buf text = {.max = BOOK_BYTES_MAX}, why = {0};
    enum err e = ERR_IO;
    if (!load_bytes(file, &text)) {
        snprintf(message, cap, "%s: %s", file, strerror(errno));
    } else {
        e = price_book_parse(buf_bytes(&text), &p->own, &why);
        if (e != ERR_OK)
            snprintf(message, cap, "%s: %s", file, buf_cstr(&why));
    }
    buf_fini(&text);
    buf_fini(&why);
    return e;
}

enum err prices_open(const struct config *config, const char *file, struct prices **out, char *message,
                     size_t message_cap)
{
    struct prices *p = mem_zalloc(sizeof *p);
    enum err e = ERR_OK;
    p->config = config;
    *out = NULL;
    if (file == NULL && config != NULL && config->price_file[0] != '\0')
        file = config->price_file;
    if (file != NULL)
        e = read_book(p, file, message, message_cap);
    if (e != ERR_OK) {
        prices_close(p);
        return e;
    }
    p->builtin = price_book_builtin();
    *out = p;
    return ERR_OK;
}

void prices_close(struct prices *p)
{
    if (p == NULL)
        return;
    price_book_free(p->own);
    price_book_free(p->builtin);
    arena_fini(&p->arena);
    mem_free(p);
}

/* ---- finding ---- */

/* A target that was asked for before: the same few are asked for again and again. */
struct known {
    struct known *next;
    const char *provider, *model;
    struct fare fare;
};

static void take_configured(const struct config *c, const char *name, struct arena *a, struct fare *out)
{
    for (size_t i = 0; c != NULL && i < c->n_prices; i++)
        if (strcmp(c->prices[i].name, name) == 0)
            for (size_t k = 0; k < c->prices[i].fare.n; k++)
                fare_put(out, a, &c->prices[i].fare.v[k]);
}

static const char *vendor_of(struct prices *p, const char *provider)
{
    const struct provider_conf *conf = p->config != NULL ? config_provider(p->config, bytes_of(provider)) : NULL;
    if (conf == NULL || conf->vendor[0] != '\0')
        return conf == NULL ? "" : conf->vendor;
    return arena_dup(&p->arena, vendor_from_host(bytes_of(conf->url.host))).p;
}

static const struct fare *make_known(struct prices *p, const char *provider, const char *model)
{
    struct known *k = ARENA_NEW(&p->arena, struct known);
    const char *vendor = vendor_of(p, provider);
    k->provider = arena_dup(&p->arena, bytes_of(provider)).p;
    k->model = arena_dup(&p->arena, bytes_of(model)).p;
    take_configured(p->config, arena_printf(&p->arena, "%s/%s", provider, model).p, &p->arena, &k->fare);
    take_configured(p->config, model, &p->arena, &k->fare);
    if (p->own != NULL)
        price_book_fare(p->own, provider, vendor, model, PRICE_LAYER_FILE, &p->arena, &k->fare);
    price_book_fare(p->builtin, provider, vendor, model, PRICE_LAYER_BUILTIN, &p->arena, &k->fare);
    k->next = p->known;
    p->known = k;
    return &k->fare;
}

const struct price *prices_find(struct prices *p, const char *provider, const char *model, const char *service,
                                int64_t wall_ms, bool *is_standin)
{
    for (const struct known *k = p->known; k != NULL; k = k->next)
        if (strcmp(k->provider, provider) == 0 && strcmp(k->model, model) == 0)
            return fare_at(&k->fare, service, wall_ms, is_standin);
    return fare_at(make_known(p, provider, model), service, wall_ms, is_standin);
}
