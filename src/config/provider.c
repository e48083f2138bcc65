/* providers: accounts, each with its address and its credential. A credential's value goes into the snapshot and
 * nowhere else: messages name the setting or the variable. */
#include "config/address.h"
#include "config/loader.h"

enum { SECRET_BYTES_MAX = 16384, HEADERS_MAX = 64, MODELS_MAX = 1000 };

static bool is_token(struct bytes name)
{
    if (name.n == 0 || name.n > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];
        if (c <= 0x20 || c >= 0x7f || memchr("\"(),/:;<=>?@[\\]{}", c, 17) != NULL)
            return false;
    }
    return true;
}

static bool is_field_value(struct bytes value)
{
    for (size_t i = 0; i < value.n; i++)
        if (((unsigned char)value.p[i] < 0x20 && value.p[i] != '\t') || value.p[i] == 0x7f)
            return false;
    return true;
}

/* ---- credential ---- */

static void set_off(struct provider_conf *p, struct loader *l, const char *variable)
{
    p->is_off = true;
    p->off_variable = arena_dup(&l->config->arena, bytes_of(variable)).p;
}

static void take_secret(struct loader *l, struct provider_conf *p, struct bytes secret, const struct node *at,
                        const char *setting)
{
    if (secret.n == 0) {
        fault_error(&l->log, place_of(at), "\"%s\" of %s is empty; leave it out, or write ${NAME:-} to turn it off",
                    setting, p->name);
        return;
    }
    for (size_t i = 0; i < secret.n; i++) {
        unsigned char c = (unsigned char)secret.p[i];
        if (c > 0x20 && c < 0x7f)
            continue;
        fault_error(&l->log, place_of(at), "\"%s\" of %s holds a space, a line end or a character that is not ASCII",
                    setting, p->name);
        return;
    }
    p->api_key = arena_dup(&l->config->arena, secret);
}

static void read_key_file(struct loader *l, struct provider_conf *p, const struct node *at)
{
    const char *path = loader_path(l, arena_dup(&l->scratch, at->text).p);
    const char *shown = fault_quote(&l->log, at->raw);
    struct bytes content = {0};
    struct arena reading = {0};
    if (l->read_file == NULL || l->read_file(path, &reading, &content) != ERR_OK) {
        fault_error(&l->log, place_of(at), "\"api_key_file\" of %s: \"%s\" cannot be read", p->name, shown);
    } else if (content.n > SECRET_BYTES_MAX) {
        fault_error(&l->log, place_of(at), "\"api_key_file\" of %s: \"%s\" is too large for a key", p->name, shown);
    } else {
        if (l->known->is_world_readable != NULL && l->known->is_world_readable(path))
            fault_warning(&l->log, place_of(at), "\"api_key_file\" of %s: everyone on this machine may read \"%s\"",
                          p->name, shown);
        take_secret(l, p, bytes_trim(content), at, "api_key_file");
    }
    if (content.n > 0)
        explicit_bzero((void *)(uintptr_t)content.p, content.n);
    arena_fini(&reading);
}

static void read_credential(struct loader *l, struct provider_conf *p, const struct provider_values *v)
{
    const struct node *at = v->api_key != NULL ? v->api_key : v->api_key_file;
    if (v->api_key != NULL && v->api_key_file != NULL) {
        fault_error(&l->log, place_of_key(v->api_key_file),
                    "\"api_key\" and \"api_key_file\" exclude each other; %s has both", p->name);
        return;
    }
    if (at == NULL)
        return;
    const char *setting = v->api_key != NULL ? "api_key" : "api_key_file";
    if (at->kind != NODE_SCALAR)
        fault_error(&l->log, place_of(at), "\"%s\" of %s is %s; expected text", setting, p->name, node_kind_text(at));
    else if (at->text.n == 0 && at->off_variable != NULL)
        set_off(p, l, at->off_variable);
    else if (v->api_key_file != NULL && at->text.n > 0)
        read_key_file(l, p, at);
    else
        take_secret(l, p, at->text, at, setting);
}

/* ---- maps ---- */

static bool is_text(struct loader *l, const struct provider_conf *p, const char *setting, const struct node *item)
{
    if (item->is_faulty)
        return false;
    if (item->kind == NODE_SCALAR && !node_is_empty(item))
        return true;
    fault_error(&l->log, place_of(item), "\"%s\" of %s: \"%s\" is %s; expected text", setting, p->name,
                fault_quote(&l->log, item->key), node_kind_text(item));
    return false;
}

static void read_models(struct loader *l, struct provider_conf *p, const struct node *map)
{
    struct arena *a = &l->config->arena;
    if (map == NULL)
        return;
    if (map->n > MODELS_MAX) {
        fault_error(&l->log, place_of(map), "more than 1000 models of %s", p->name);
        return;
    }
    p->models = ARENA_ARRAY(a, struct model_name, map->n);
    NODE_EACH(map, item)
    {
        if (!is_text(l, p, "models", item))
            continue;
        if (item->text.n == 0 || item->key.n == 0 || !is_field_value(item->text) || !is_field_value(item->key))
            fault_error(&l->log, place_of(item), "\"models\" of %s: a name is empty or holds a control character",
                        p->name);
        else
            p->models[p->n_models++] = (struct model_name){arena_dup(a, item->key).p, arena_dup(a, item->text).p};
    }
}

static bool is_ours(struct bytes name)
{
    static const char *const names[] = {"host",    "content-length", "transfer-encoding", "connection",     "te",
                                        "trailer", "upgrade",        "keep-alive",        "accept-encoding"};
    for (size_t i = 0; i < RM_COUNTOF(names); i++)
        if (bytes_eq_nocase(name, bytes_of(names[i])))
            return true;
    return false;
}

static void read_headers(struct loader *l, struct provider_conf *p, const struct node *map)
{
    struct arena *a = &l->config->arena;
    if (map == NULL)
        return;
    if (map->n > HEADERS_MAX) {
        fault_error(&l->log, place_of(map), "more than 64 headers of %s", p->name);
        return;
    }
    p->headers = ARENA_ARRAY(a, struct header_line, map->n);
    NODE_EACH(map, item)
    {
        const char *name = fault_quote(&l->log, item->key);
        if (!is_text(l, p, "headers", item))
            continue;
        if (!is_token(item->key))
            fault_error(&l->log, place_of_key(item), "\"headers\" of %s: \"%s\" is not the name of a header", p->name,
                        name);
        else if (is_ours(item->key))
            fault_error(&l->log, place_of_key(item), "\"headers\" of %s: \"%s\" is the gateway's own", p->name, name);
        else if (!is_field_value(item->text))
            fault_error(&l->log, place_of(item), "\"headers\" of %s: the value of \"%s\" holds a control character",
                        p->name, name);
        else
            p->headers[p->n_headers++] = (struct header_line){arena_dup(a, item->key).p, arena_dup(a, item->text).p};
    }
}

/* ---- one provider ---- */

static void check_known(struct loader *l, const struct node *at, const char *setting, const char *word,
                        const char *const *words)
{
    struct buf list = {0};
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0) {
            buf_fini(&list);
            return;
        }
        buf_printf(&list, "%s%s", i == 0 ? "" : ", ", words[i]);
    }
    fault_error(&l->log, place_of(at), "\"%s\" is \"%s\"; expected one of %s%s", setting, fault_quote(&l->log, at->raw),
                buf_cstr(&list), words == NULL ? "" : fault_hint(&l->log, at->raw, words));
    buf_fini(&list);
}

static void read_url(struct loader *l, struct provider_conf *p, const struct provider_values *v, const struct node *map)
{
    const struct node *at = node_get(map, "base_url");
    if (at == NULL) {
        fault_error(&l->log, place_of_key(map), "provider %s has no \"base_url\"", p->name);
    } else if (v->base_url != NULL && v->base_url[0] == '\0' && at->off_variable != NULL) {
        set_off(p, l, at->off_variable);
    } else if (v->base_url != NULL) {
        const char *why = address_parse_url(bytes_of(v->base_url), &l->config->arena, &p->url);
        if (why != NULL)
            fault_error(&l->log, place_of(at), "\"base_url\" of %s %s", p->name, why);
    }
}

static void read_ca(struct loader *l, struct provider_conf *p, const struct provider_values *v, const struct node *map)
{
    if (v->ca_file == NULL || v->ca_file[0] == '\0')
        return;
    const struct node *at = node_get(map, "ca_file");
    struct arena reading = {0};
    struct bytes content;
    p->ca_file = loader_path(l, v->ca_file);
    if (l->read_file == NULL || l->read_file(p->ca_file, &reading, &content) != ERR_OK)
        fault_error(&l->log, place_of(at), "\"ca_file\" of %s: \"%s\" cannot be read", p->name,
                    fault_quote(&l->log, at->raw));
    arena_fini(&reading);
}

static void read_aborts(struct loader *l, struct provider_conf *p, uint32_t configured)
{
    if (l->aborts == NULL)
        l->aborts = abort_table_builtin(&l->scratch);
    for (unsigned when = 0; when < ABORT_N_WHENS; when++)
        p->aborts[when] = configured == 0
                              ? abort_find(l->aborts, loader_vendor(l, p), p->dialect, (enum abort_when)when)
                              : (struct abort_billing){(enum abort_rule)(configured - 1), ABORT_CONFIGURED};
}

static void read_provider(struct loader *l, struct provider_conf *p, const struct node *map)
{
    struct provider_values v = {0};
    settings_defaults(&l->reader, SECTION_PROVIDER, &v);
    p->url = (struct url){.host = "", .path = "", .authority = ""};
    p->dialect = v.dialect != NULL ? v.dialect : "";
    p->vendor = "";
    if (!settings_read(&l->reader, SECTION_PROVIDER, map, &v))
        return;
    p->dialect = v.dialect != NULL ? v.dialect : "";
    p->vendor = v.vendor != NULL ? v.vendor : "";
    if (node_get(map, "dialect") == NULL)
        fault_error(&l->log, place_of_key(map), "provider %s has no \"dialect\"", p->name);
    else if (v.dialect != NULL)
        check_known(l, node_get(map, "dialect"), "dialect", v.dialect, l->known->dialects);
    if (p->vendor[0] != '\0' && l->known->vendors != NULL)
        check_known(l, node_get(map, "vendor"), "vendor", p->vendor, l->known->vendors);
    read_url(l, p, &v, map);
    read_credential(l, p, &v);
    read_models(l, p, v.models);
    read_headers(l, p, v.headers);
    read_ca(l, p, &v, map);
    read_aborts(l, p, v.abort_billing);
    advice_provider(l, p, map);
}

void provider_load(struct loader *l)
{
    struct config *c = l->config;
    const struct node *map = l->file.providers;
    if (map == NULL || map->n == 0) {
        fault_error(&l->log, map == NULL ? (struct place){0} : place_of(map),
                    "no providers; expected `providers: {NAME: {dialect, base_url, api_key}}`");
        return;
    }
    if (map->n > PROVIDERS_MAX) {
        fault_error(&l->log, place_of(map), "more than 1000 providers");
        return;
    }
    c->providers = ARENA_ARRAY(&c->arena, struct provider_conf, map->n);
    l->provider_nodes = ARENA_ARRAY(&l->scratch, const struct node *, map->n);
    NODE_EACH(map, item)
    {
        struct provider_conf *p = &c->providers[c->n_providers];
        if (!loader_is_name(item->key))
            fault_error(&l->log, place_of_key(item),
                        "\"%s\" is not a provider's name; expected 1 to 64 of A-Z a-z 0-9 _ . -",
                        fault_quote(&l->log, item->key));
        p->name = arena_dup(&c->arena, item->key).p;
        p->index = (uint16_t)c->n_providers;
        l->provider_nodes[c->n_providers++] = item;
        read_provider(l, p, item);
    }
}
