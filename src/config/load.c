#include "base/mem.h"
#include "base/text.h"
#include "config/address.h"
#include "config/loader.h"
#include "config/substitute.h"
#include "price/price.h"

enum { WORKERS_MAX = 4, SHA256_BYTES = 32 };

static _Atomic uint64_t n_loads; /* of this process: snapshots are told apart by it in logs and on the panel */

/* ---- helpers of the sections ---- */

const char *loader_path(struct loader *l, const char *path)
{
    if (path[0] == '/')
        return path;
    return arena_printf(&l->config->arena, "%s%s", l->folder, path).p;
}

const char *loader_vendor(struct loader *l, const struct provider_conf *p)
{
    if (p->vendor[0] != '\0' || l->known->vendor_from_host == NULL)
        return p->vendor;
    return arena_dup(&l->scratch, l->known->vendor_from_host(bytes_of(p->url.host))).p;
}

bool loader_is_name(struct bytes name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool is_fine = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-';
        if (!is_fine)
            return false;
    }
    return name.n > 0 && name.n <= NAME_BYTES_MAX;
}

const char *loader_provider_hint(struct loader *l, struct bytes name)
{
    const char **names = ARENA_ARRAY(&l->scratch, const char *, l->config->n_providers + 1);
    for (size_t i = 0; i < l->config->n_providers; i++)
        names[i] = l->config->providers[i].name;
    return fault_hint(&l->log, name, names);
}

/* ---- the outermost settings ---- */

static struct place place_in_file(const struct node *root, const char *setting)
{
    const struct node *at = node_get(root, setting);
    return at == NULL ? (struct place){0} : place_of(at);
}

static void check_listen(struct loader *l, const struct node *root)
{
    struct config *c = l->config;
    bool is_loopback = true;
    const char *why = address_parse_listen(bytes_of(c->listen), &is_loopback);
    if (why != NULL)
        fault_error(&l->log, place_in_file(root, "listen"), "\"listen\": %s", why);
    else if (!is_loopback && c->n_keys == 0)
        fault_error(&l->log, place_in_file(root, "listen"),
                    "\"listen\" is not a loopback address and there are no \"client_keys\": anyone could spend your "
                    "providers' money; `ringmain keys new` makes a key");
}

static void check_admin(struct loader *l, struct place at)
{
    struct config *c = l->config;
    bool is_loopback = true;
    const char *why = address_parse_listen(bytes_of(c->admin_listen), &is_loopback);
    if (why != NULL)
        fault_error(&l->log, at, "\"admin\": %s", why);
    else if (!is_loopback && !c->has_admin_secret)
        fault_error(&l->log, at, "\"admin\" is not a loopback address and has no \"secret_sha256\"");
    else if (strcmp(c->admin_listen, c->listen) == 0 && !bytes_ends_with(bytes_of(c->listen), BYTES(":0")))
        fault_error(&l->log, at, "\"admin\" and \"listen\" are the same address");
}

static void read_secret_hash(struct loader *l, const struct node *at, const char *text)
{
    if (text == NULL)
        return;
    l->config->has_admin_secret = text_unhex(bytes_of(text), l->config->admin_secret_sha256, SHA256_BYTES);
    if (!l->config->has_admin_secret)
        fault_error(&l->log, place_of(at),
                    "\"secret_sha256\" is not 64 hexadecimal digits; `ringmain keys hash` gives them");
}

static void read_admin(struct loader *l)
{
    struct admin_values v = {0};
    const struct node *at = l->file.admin;
    settings_defaults(&l->reader, SECTION_ADMIN, &v);
    struct place place = {0};
    if (at != NULL && at->kind == NODE_SCALAR) {
        v.listen = arena_dup(&l->config->arena, at->text).p;
        place = place_of(at);
    } else if (at != NULL && settings_read(&l->reader, SECTION_ADMIN, at, &v)) {
        const struct node *listen = node_get(at, "listen");
        place = place_of(listen != NULL ? listen : at);
        read_secret_hash(l, node_get(at, "secret_sha256"), v.secret_sha256);
    }
    bool is_off = strcmp(v.listen, "off") == 0;
    l->config->admin_listen = is_off ? "" : v.listen;
    if (!is_off)
        check_admin(l, place);
}

static void read_ledger(struct loader *l, const struct node *root)
{
    const char *text = l->file.ledger;
    struct bytes path = bytes_of(text);
    l->config->ledger = "";
    if (strcmp(text, "off") == 0)
        return;
    if (!bytes_starts_with(path, BYTES("sqlite:")) || path.n == strlen("sqlite:"))
        fault_error(&l->log, place_in_file(root, "ledger"), "\"ledger\" is not sqlite:PATH or off");
    else
        l->config->ledger = loader_path(l, text + strlen("sqlite:"));
}

static void read_access_log(struct loader *l)
{
    const char *text = l->file.access_log;
    bool is_word = strcmp(text, "stdout") == 0 || strcmp(text, "off") == 0;
    l->config->access_log = is_word ? text : loader_path(l, text);
}

/* ---- client_keys ---- */

static void check_key_is_new(struct loader *l, const struct client_key *key, const struct node *item)
{
    for (size_t i = 0; i < l->config->n_keys; i++) {
        const struct client_key *k = &l->config->keys[i];
        if (strcmp(k->name, key->name) == 0)
            fault_error(&l->log, place_of(item), "the client key \"%s\" stands twice", key->name);
        else if (memcmp(k->sha256, key->sha256, SHA256_BYTES) == 0)
            fault_error(&l->log, place_of(item), "the client keys \"%s\" and \"%s\" are one key", k->name, key->name);
    }
}

/* A wrong sha256 is not repeated in the message: it may be the key itself. */
static void read_client_key(struct loader *l, const struct node *item)
{
    struct key_values v = {0};
    struct client_key key = {0};
    if (!settings_read(&l->reader, SECTION_KEY, item, &v))
        return;
    if (v.name == NULL || v.sha256 == NULL) {
        if (node_get(item, "name") == NULL || node_get(item, "sha256") == NULL)
            fault_error(&l->log, place_of(item), "a client key needs \"name\" and \"sha256\"");
        return;
    }
    key.name = v.name;
    if (!loader_is_name(bytes_of(v.name)))
        fault_error(&l->log, place_of(node_get(item, "name")),
                    "the name of a client key is 1 to 64 of A-Z a-z 0-9 _ . -");
    else if (!text_unhex(bytes_of(v.sha256), key.sha256, SHA256_BYTES))
        fault_error(&l->log, place_of(node_get(item, "sha256")),
                    "\"sha256\" of client key \"%s\" is not 64 hexadecimal digits; `ringmain keys hash` gives them",
                    v.name);
    else
        check_key_is_new(l, &key, item);
    l->config->keys[l->config->n_keys++] = key;
}

static void read_client_keys(struct loader *l)
{
    const struct node *list = l->file.client_keys;
    if (list == NULL)
        return;
    if (list->n > KEYS_MAX) {
        fault_error(&l->log, place_of(list), "more than 10000 client keys");
        return;
    }
    l->config->keys = ARENA_ARRAY(&l->config->arena, struct client_key, list->n);
    NODE_EACH(list, item)
    read_client_key(l, item);
}

/* ---- the whole ---- */

static void read_limits(struct loader *l)
{
    struct limits_conf *limits = &l->config->limits;
    settings_defaults(&l->reader, SECTION_LIMITS, limits);
    if (l->file.limits != NULL)
        settings_read(&l->reader, SECTION_LIMITS, l->file.limits, limits);
    if (l->file.limits != NULL && limits->memory < limits->body_bytes)
        fault_warning(&l->log, place_of_key(l->file.limits),
                      "\"memory\" is less than \"body_bytes\": the largest bodies are never admitted");
}

static void read_file_section(struct loader *l, const struct node *root)
{
    struct config *c = l->config;
    settings_defaults(&l->reader, SECTION_FILE, &l->file);
    if (!settings_read(&l->reader, SECTION_FILE, root, &l->file))
        return;
    uint32_t cores = l->known->cores > 0 ? l->known->cores : 1;
    c->listen = l->file.listen;
    c->workers = l->file.workers > 0 ? l->file.workers : cores < WORKERS_MAX ? cores : WORKERS_MAX;
    c->ledger_flush_ms = l->file.ledger_flush_ms;
    c->drain_timeout_ms = l->file.drain_timeout_ms;
    c->resolver_is_system = l->file.resolver == 1;
    read_ledger(l, root);
    read_access_log(l);
    read_client_keys(l);
    check_listen(l, root);
    read_admin(l);
    read_limits(l);
    tariff_load(l, root);
    provider_load(l);
    route_load(l);
    advice_tariff(l);
}

static void begin(struct loader *l, const char *path)
{
    struct config *c = mem_zalloc(sizeof *c);
    mem_count(MEM_CONFIG, 1);
    atomic_init(&c->refs, 1);
    l->config = c;
    c->loaded_wall_ms = l->known->wall_ms;
    c->path = arena_dup(&c->arena, bytes_of(path)).p;
    const char *slash = strrchr(c->path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - c->path) + 1;
    l->folder = arena_dup(&c->arena, bytes_from(c->path, n)).p;
    l->log.file = arena_dup(&l->log.faults->arena, bytes_of(path)).p;
    l->reader = (struct settings_reader){&l->log, &c->arena, l->known->memory_bytes};
}

enum err config_parse(struct bytes text, const char *path, const struct config_known *known,
                      enum err (*read_file)(const char *path, struct arena *a, struct bytes *out), struct config **out,
                      struct config_faults *faults)
{
    RM_ASSERT(path != NULL && known != NULL && out != NULL && faults != NULL);
    *out = NULL;
    *faults = (struct config_faults){0};
    struct loader l = {.known = known, .read_file = read_file, .log = {.faults = faults}};
    begin(&l, path);
    struct node *root = node_parse(text, &l.scratch, &l.log);
    if (root != NULL) {
        substitute(root, known, &l.scratch, &l.log);
        read_file_section(&l, root);
        node_scrub(root);
    }
    arena_fini(&l.scratch);
    price_book_free(l.book);
    fault_sort(faults);
    if (faults->n_errors > 0) {
        config_unref(l.config);
        return ERR_SYNTAX;
    }
    l.config->version = atomic_fetch_add(&n_loads, 1) + 1;
    *out = l.config;
    return ERR_OK;
}
