/* One load in progress. Private to the room. The order is: file -> tree -> values of each section -> snapshot; every
 * step tells its faults and goes on with what is left, so that a file's faults are all told at once. */
#ifndef RM_CONFIG_LOADER_H
#define RM_CONFIG_LOADER_H

#include "config/settings.h"

struct loader {
    struct arena scratch; /* the tree; scrubbed at the end */
    struct config *config;
    struct fault_log log;
    struct settings_reader reader;
    const struct config_known *known;
    enum err (*read_file)(const char *path, struct arena *a, struct bytes *out);
    const char *folder; /* of the file, with its slash; "" = here */
    struct file_values file;
    const struct node **provider_nodes; /* by index */
    const struct node **price_nodes;    /* entries of `prices` */
    bool *price_is_used;
    struct price_book *book;          /* of `price_file`; NULL = none */
    const struct abort_table *aborts; /* the built-in one, once it was asked for */
};

enum { PROVIDERS_MAX = 1000, ROUTES_MAX = 10000, LINKS_MAX = 64, KEYS_MAX = 10000 };

/* A path of the file: relative to the file's folder. In the snapshot's arena. */
const char *loader_path(struct loader *l, const char *path);
/* [A-Za-z0-9_.-]{1,64} */
bool loader_is_name(struct bytes name);
/* "did you mean" among the providers of the file. */
const char *loader_provider_hint(struct loader *l, struct bytes name);

/* The vendor as configured, else by the host, else "". In the scratch arena or the snapshot's. */
const char *loader_vendor(struct loader *l, const struct provider_conf *p);

/* The sections; each fills its part of l->config. */
void provider_load(struct loader *l);
void tariff_load(struct loader *l, const struct node *root);
void route_load(struct loader *l);
/* The prices of a target: the file's `prices`, then those of `price_file`, then those of the book that is known. In the
 * snapshot's arena. */
const struct fare *tariff_find(struct loader *l, const struct provider_conf *p, const char *model);
/* Warnings about what is allowed and unwise. */
void advice_provider(struct loader *l, const struct provider_conf *p, const struct node *at);
/* items[i] is the place of link i. */
void advice_route(struct loader *l, const struct route_conf *r, const struct node *at, const struct node *const *items);
void advice_tariff(struct loader *l);

#endif
