/* The file as a tree: maps, lists and scalars, each with its place. Built from libfyaml's events by ourselves, because
 * we want every duplicate key with line and column, all of them at once, and bounds on what a file may hold. */
#ifndef RM_CONFIG_NODE_H
#define RM_CONFIG_NODE_H

#include "base/arena.h"
#include "base/err.h"

enum node_kind { NODE_SCALAR, NODE_MAP, NODE_LIST };

struct node {
    enum node_kind kind;
    unsigned line, column; /* from 1 */
    /* scalar */
    struct bytes raw;         /* as written, quotes and escapes resolved; may stand in messages unless it is a secret */
    struct bytes text;        /* with ${NAME} replaced: never in messages */
    bool is_plain;            /* without quotes */
    bool is_faulty;           /* its ${…} was told already: take it as not there */
    const char *off_variable; /* NAME of a ${NAME:-} that gave nothing; else NULL */
    /* map and list */
    struct node *first, *last;
    size_t n;
    /* as an item */
    struct node *next;
    struct bytes key; /* in a map; p NULL in a list */
    unsigned key_line, key_column;
};

enum { NODE_TEXT_MAX = 4 << 20, NODE_DEPTH_MAX = 24, NODE_ITEMS_MAX = 10000, NODE_KEY_MAX = 512 };

struct fault_log;

/* Parses one YAML (or JSON) document. Everything lives in the arena. NULL: not YAML at all, empty, or over a bound; the
 * fault is in the log. Duplicate keys, anchors, aliases and tags are faults too, but the tree is still given. */
struct node *node_parse(struct bytes text, struct arena *a, struct fault_log *log);
/* The member of a map; NULL when it is not there. */
const struct node *node_get(const struct node *map, const char *key);
/* Nothing stands there: `key:`, `~` or `null` without quotes. */
bool node_is_empty(const struct node *n);
/* "a map", "a list", "text". */
const char *node_kind_text(const struct node *n);
/* The value as JSON text: maps and lists as such; without quotes true, false, null and JSON numbers as such;
 * everything else a string. */
struct buf;
void node_json(const struct node *n, struct buf *out);
/* Overwrites every scalar: they may be secrets. */
void node_scrub(struct node *n);

#define NODE_EACH(parent, item) for (struct node *item = (parent)->first; item != NULL; item = item->next)

#endif
