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
    mem_free(p);
}

static const struct price *find_configured(const struct prices *p, const char *provider, const char *model)
{
    const struct config *c = p->config;
    const struct price *found = NULL;
    size_t n = strlen(provider);
    for (size_t i = 0; c != NULL && i < c->n_prices; i++) {
        const char *name = c->prices[i].name;
        if (strncmp(name, provider, n) == 0 && name[n] == '/' && strcmp(name + n + 1, model) == 0)
            return c->prices[i].price;
        if (strcmp(name, model) == 0)
            found = c->prices[i].price;
    }
    return found;
}

const struct price *prices_find(const struct prices *p, const char *provider, const char *model, int64_t wall_ms)
{
    const struct price *found = find_configured(p, provider, model);
    const struct provider_conf *conf = p->config != NULL ? config_provider(p->config, bytes_of(provider)) : NULL;
    char vendor[64] = "";
    if (conf != NULL && conf->vendor[0] != '\0') {
        snprintf(vendor, sizeof vendor, "%s", conf->vendor);
    } else if (conf != NULL) {
        struct bytes v = vendor_from_host(bytes_of(conf->url.host));
        snprintf(vendor, sizeof vendor, "%.*s", (int)v.n, v.p);
    }
    if (found == NULL && p->own != NULL)
        found = price_find(p->own, provider, vendor, model, wall_ms);
    return found != NULL ? found : price_find(p->builtin, provider, vendor, model, wall_ms);
}
