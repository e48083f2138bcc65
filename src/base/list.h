/* Intrusive doubly linked list with a sentinel head. An unlinked node points to itself. */
#ifndef RM_BASE_LIST_H
#define RM_BASE_LIST_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}
static inline bool list_is_empty(const struct list *head)
{
    return head->next == head;
}
static inline bool list_is_linked(const struct list *node)
{
    return node->next != node;
}
/* Adds at the end. */
static inline void list_put(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}
/* Adds at the front. */
static inline void list_push(struct list *head, struct list *node)
{
    list_put(head->next, node);
}
/* Unlinks; harmless when already unlinked. */
static inline void list_del(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}
/* Unlinks and returns the first node, or NULL. */
static inline struct list *list_take(struct list *head)
{
    struct list *node = head->next;
    if (node == head)
        return NULL;
    list_del(node);
    return node;
}

#define LIST_ITEM(node, type, member) RM_CONTAINER(node, type, member)
/* Safe against removal of the current node. */
#define LIST_EACH(head, node)                                                         \
    for (struct list *node = (head)->next, *node##_next = node->next; node != (head); \
         node = node##_next, node##_next = node->next)

#endif
