/* prices: rates of the user's own, by "provider/model" or "model"; they go before the book of `price_file`, and that
 * one before the built-in book. A value is one price or a list of them: one for each class of service and each span of
 * days. The members are those of a book's entry, and say the same. */
#include "config/loader.h"
#include "price/price.h"
#include "price/service_class.h"

enum { TARIFFS_MAX = 10000, TIERS_MAX = 32 };

/* ---- one price ---- */

static bool read_day(struct loader *l, const struct node *item, const char *name, bool after, int64_t *out)
{
    const struct node *at = node_get(item, name);
    if (at == NULL || at->kind != NODE_SCALAR || node_is_empty(at) || price_day_parse(at->text, after, out))
        return true; /* what is no text was told */
    fault_error(&l->log, place_of(at), "\"%s\" is \"%s\"; expected a day like 2026-08-31", name,
                fault_quote(&l->log, at->raw));
    return false;
}

static void read_tier(struct loader *l, const struct node *item, struct price_tier *out)
{
    struct tier_values v = {-1, UNSET, -1, -1, -1, -1, -1, -1};
    bool is_map = settings_read(&l->reader, SECTION_TIER, item, &v);
    if (is_map && node_get(item, "above") == NULL)
        fault_error(&l->log, place_of(item), "a tier has no \"above\"");
    *out = (struct price_tier){.above = v.above,
                               .is_inclusive = v.inclusive == YES,
                               .input = v.input,
                               .output = v.output,
                               .cache_read = v.cache_read,
                               .cache_write_5m = v.cache_write_5m,
                               .cache_write_1h = v.cache_write_1h,
                               .reasoning = v.reasoning};
}

static void read_tiers(struct loader *l, const struct node *list, struct price_more *m)
{
    if (list->n > TIERS_MAX) {
        fault_error(&l->log, place_of(list), "\"tiers\" holds more than 32 tiers");
        return;
    }
    struct price_tier *tiers = ARENA_ARRAY(&l->config->arena, struct price_tier, list->n > 0 ? list->n : 1);
    NODE_EACH(list, item)
    {
        struct price_tier *t = &tiers[m->n_tiers++];
        read_tier(l, item, t);
        if (m->n_tiers > 1 && t->above >= 0 && t->above <= t[-1].above)
            fault_error(&l->log, place_of(item), "the tiers do not rise: \"above\" is %lld after %lld",
                        (long long)t->above, (long long)t[-1].above);
    }
    m->tiers = tiers;
}

static const struct price_more *make_more(struct loader *l, const struct rates_values *v)
{
    if (v->reasoning < 0 && v->request <= 0 && v->tiers == NULL)
        return NULL;
    struct price_more *m = ARENA_NEW(&l->config->arena, struct price_more);
    m->reasoning = v->reasoning;
    m->request = v->request > 0 ? v->request : 0;
    if (v->tiers != NULL)
        read_tiers(l, v->tiers, m);
    return m;
}

static const char *read_service(struct loader *l, const struct node *item, const struct rates_values *v)
{
    char word[SERVICE_BYTES];
    if (v->service == NULL)
        return "";
    service_class_read(bytes_of(v->service), word);
    if (strcmp(word, "other") == 0)
        fault_error(&l->log, place_of(node_get(item, "service")),
                    "\"service\" is \"%s\"; expected a word of at most 23 letters, digits, _ . -",
                    fault_quote(&l->log, bytes_of(v->service)));
    return strcmp(word, "standard") == 0 ? "" : arena_dup(&l->config->arena, bytes_of(word)).p;
}

static void check_rates(struct loader *l, const struct node *item, const char *name)
{
    const char *missing = node_get(item, "input") == NULL    ? "input"
                          : node_get(item, "output") == NULL ? "output"
                                                             : NULL;
    if (node_get(item, "input") == NULL && node_get(item, "output") == NULL)
        fault_error(&l->log, place_of(item), "the price of \"%s\" has neither \"input\" nor \"output\"", name);
    else if (missing != NULL)
        fault_warning(&l->log, place_of(item),
                      "the price of \"%s\" has no \"%s\": a call that has some has no known cost", name, missing);
}

/* The dates and the note are for people; the rest becomes a span. `name`: for messages. */
static bool read_price(struct loader *l, const struct node *item, const char *name, struct fare_span *out)
{
    struct rates_values v = {.input = -1,
                             .output = -1,
                             .cache_read = -1,
                             .cache_write_5m = -1,
                             .cache_write_1h = -1,
                             .reasoning = -1,
                             .source = "config"};
    settings_defaults(&l->reader, SECTION_RATES, &v);
    if (!settings_read(&l->reader, SECTION_RATES, item, &v))
        return false;
    check_rates(l, item, name);
    *out = (struct fare_span){.from_ms = INT64_MIN, .until_ms = INT64_MAX, .layer = PRICE_LAYER_CONFIG};
    bool are_days = read_day(l, item, "valid_from", false, &out->from_ms);
    are_days &= read_day(l, item, "valid_until", true, &out->until_ms);
    if (are_days && out->from_ms >= out->until_ms)
        fault_error(&l->log, place_of(node_get(item, "valid_until")), "\"valid_until\" is before \"valid_from\"");
    out->service = read_service(l, item, &v);
    struct price *p = ARENA_NEW(&l->config->arena, struct price);
    *p = (struct price){v.input,          v.output,  v.cache_read, v.cache_write_5m,
                        v.cache_write_1h, v.version, v.source,     make_more(l, &v)};
    out->price = p;
    return true;
}

/* ---- the prices of a name ---- */

static bool is_clash(const struct fare_span *a, const struct fare_span *b)
{
    return strcmp(a->service, b->service) == 0 && a->from_ms < b->until_ms && b->from_ms < a->until_ms;
}

static void put_price(struct loader *l, const struct node *item, struct bytes key, struct fare *out)
{
    const char *name = fault_quote(&l->log, key);
    struct fare_span span;
    if (!read_price(l, item, name, &span))
        return;
    for (size_t i = 0; i < out->n; i++) {
        if (!is_clash(&out->v[i], &span))
            continue;
        fault_error(&l->log, place_of(item), "two prices of \"%s\" hold at one time for one class of service", name);
        break;
    }
    fare_put(out, &l->config->arena, &span);
}

static void read_named(struct loader *l, const struct node *item, struct fare *out)
{
    if (item->kind != NODE_LIST) {
        put_price(l, item, item->key, out);
        return;
    }
    if (item->n == 0 || item->n > FARE_SPANS_MAX) {
        fault_error(&l->log, place_of(item), "\"%s\" has %zu prices; expected 1 to %d", fault_quote(&l->log, item->key),
                    item->n, FARE_SPANS_MAX);
        return;
    }
    NODE_EACH(item, one)
    {
        put_price(l, one, item->key, out);
    }
}

static void read_own(struct loader *l, const struct node *map)
{
    struct config *c = l->config;
    l->price_nodes = ARENA_ARRAY(&l->scratch, const struct node *, map->n);
    l->price_is_used = ARENA_ARRAY(&l->scratch, bool, map->n);
    c->prices = ARENA_ARRAY(&c->arena, struct named_fare, map->n);
    NODE_EACH(map, item)
    {
        struct named_fare *named = &c->prices[c->n_prices];
        l->price_nodes[c->n_prices++] = item;
        named->name = arena_dup(&c->arena, item->key).p;
        read_named(l, item, &named->fare);
    }
}

static void read_book(struct loader *l, const struct node *root)
{
    struct arena reading = {0};
    struct bytes content;
    struct buf why = {0};
    const struct node *at = node_get(root, "price_file");
    l->config->price_file = loader_path(l, l->file.price_file);
    if (l->read_file == NULL || l->read_file(l->config->price_file, &reading, &content) != ERR_OK)
        fault_error(&l->log, place_of(at), "\"price_file\": \"%s\" cannot be read", fault_quote(&l->log, at->raw));
    else if (price_book_parse(content, &l->book, &why) != ERR_OK)
        fault_error(&l->log, place_of(at), "\"price_file\": %s", fault_quote(&l->log, buf_bytes(&why)));
    buf_fini(&why);
    arena_fini(&reading);
}

void tariff_load(struct loader *l, const struct node *root)
{
    const struct node *map = l->file.prices;
    l->config->price_file = "";
    if (map != NULL && map->n > TARIFFS_MAX)
        fault_error(&l->log, place_of(map), "more than 10000 prices");
    else if (map != NULL)
        read_own(l, map);
    if (l->file.price_file != NULL && l->file.price_file[0] != '\0')
        read_book(l, root);
}

/* ---- the prices of a target ---- */

static void take_own(struct loader *l, struct bytes name, struct fare *out)
{
    for (size_t i = 0; i < l->config->n_prices; i++) {
        if (!bytes_eq(l->price_nodes[i]->key, name))
            continue;
        const struct fare *f = &l->config->prices[i].fare;
        l->price_is_used[i] = true;
        for (size_t k = 0; k < f->n; k++)
            fare_put(out, &l->config->arena, &f->v[k]);
        return;
    }
}

const struct fare *tariff_find(struct loader *l, const struct provider_conf *p, const char *model)
{
    struct arena *a = &l->config->arena; /* a book may go before the snapshot does */
    struct fare *f = ARENA_NEW(a, struct fare);
    take_own(l, arena_printf(&l->scratch, "%s/%s", p->name, model), f);
    take_own(l, bytes_of(model), f);
    const char *vendor = loader_vendor(l, p);
    if (l->book != NULL)
        price_book_fare(l->book, p->name, vendor, model, PRICE_LAYER_FILE, a, f);
    if (l->known->fare != NULL)
        l->known->fare(p->name, vendor, model, a, f, l->known->arg);
    return f;
}
