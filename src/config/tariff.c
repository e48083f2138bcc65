/* prices: rates of the user's own, by "provider/model" or "model"; they go before the price book. */
#include "config/loader.h"
#include "price/price.h"

enum { TARIFFS_MAX = 10000 };

static void read_rates(struct loader *l, const struct node *item, struct price *out)
{
    *out = (struct price){-1, -1, -1, -1, -1, "config", "config", NULL};
    if (!settings_read(&l->reader, SECTION_RATES, item, out))
        return;
    const char *key = fault_quote(&l->log, item->key);
    if (node_get(item, "input") == NULL)
        fault_error(&l->log, place_of_key(item), "the price of \"%s\" has no \"input\"", key);
    if (node_get(item, "output") == NULL)
        fault_error(&l->log, place_of_key(item), "the price of \"%s\" has no \"output\"", key);
}

void tariff_load(struct loader *l)
{
    const struct node *map = l->file.prices;
    if (map == NULL)
        return;
    if (map->n > TARIFFS_MAX) {
        fault_error(&l->log, place_of(map), "more than 10000 prices");
        return;
    }
    l->price_nodes = ARENA_ARRAY(&l->scratch, const struct node *, map->n);
    l->prices = ARENA_ARRAY(&l->config->arena, struct price, map->n);
    l->price_is_used = ARENA_ARRAY(&l->scratch, bool, map->n);
    NODE_EACH(map, item)
    {
        read_rates(l, item, &l->prices[l->n_prices]);
        l->price_nodes[l->n_prices++] = item;
    }
}

static const struct price *find_own(struct loader *l, struct bytes name)
{
    for (size_t i = 0; i < l->n_prices; i++) {
        if (!bytes_eq(l->price_nodes[i]->key, name))
            continue;
        l->price_is_used[i] = true;
        return &l->prices[i];
    }
    return NULL;
}

const struct price *tariff_find(struct loader *l, const struct provider_conf *p, const char *model)
{
    struct bytes long_name = arena_printf(&l->scratch, "%s/%s", p->name, model);
    const struct price *own = find_own(l, long_name);
    if (own == NULL)
        own = find_own(l, bytes_of(model));
    if (own != NULL || l->known->price == NULL)
        return own;
    const char *vendor = p->vendor;
    if (vendor[0] == '\0' && l->known->vendor_from_host != NULL)
        vendor = arena_dup(&l->scratch, l->known->vendor_from_host(bytes_of(p->url.host))).p;
    const struct price *book = l->known->price(p->name, vendor, model, l->known->arg);
    return book == NULL ? NULL : price_keep(book, &l->config->arena); /* the book may go before the snapshot does */
}
