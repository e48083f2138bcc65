/* prices: rates of the user's own, by "provider/model" or "model"; they go before the book of `price_file`, and that
 * one before the built-in book. */
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

static void read_own(struct loader *l, const struct node *map)
{
    struct config *c = l->config;
    l->price_nodes = ARENA_ARRAY(&l->scratch, const struct node *, map->n);
    l->prices = ARENA_ARRAY(&c->arena, struct price, map->n);
    l->price_is_used = ARENA_ARRAY(&l->scratch, bool, map->n);
    c->prices = ARENA_ARRAY(&c->arena, struct named_price, map->n);
    NODE_EACH(map, item)
    {
        read_rates(l, item, &l->prices[l->n_prices]);
        c->prices[c->n_prices++] = (struct named_price){arena_dup(&c->arena, item->key).p, &l->prices[l->n_prices]};
        l->price_nodes[l->n_prices++] = item;
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
    if (own != NULL)
        return own;
    const char *vendor = loader_vendor(l, p);
    const struct price *book = NULL;
    if (l->book != NULL)
        book = price_find(l->book, p->name, vendor, model, l->known->wall_ms);
    if (book == NULL && l->known->price != NULL)
        book = l->known->price(p->name, vendor, model, l->known->arg);
    return book == NULL ? NULL : price_keep(book, &l->config->arena); /* the book may go before the snapshot does */
}
