/* Page i holds PER_PAGE slots; a slot is a small header followed by the object:
 *
 *     pages[0] -> | header | object | header | object | ...
 *
 * Free slots are chained through their header. The generation is odd while the object lives. */
#include "base/slab.h"

#include "base/check.h"
#include "base/poison.h"

#include <string.h>

enum { PER_PAGE = 32 };

struct slot {
    _Alignas(16) uint32_t index;
    uint32_t generation;
    struct slot *next_free;
};

struct slab {
    size_t object_bytes, slot_bytes;
    enum mem_type type;
    char **pages;
    size_t n_pages, n_live;
    struct slot *first_free;
};

static struct slot *slot_at(const struct slab *s, uint32_t index)
{
    return (struct slot *)(void *)(s->pages[index / PER_PAGE] + index % PER_PAGE * s->slot_bytes);
}

static struct slot *slot_of(const void *object)
{
    return (struct slot *)(void *)((char *)(uintptr_t)object - sizeof(struct slot));
}

struct slab *slab_new(size_t object_bytes, enum mem_type type)
{
    struct slab *s = mem_zalloc(sizeof *s);
    s->object_bytes = object_bytes;
    s->slot_bytes = sizeof(struct slot) + (object_bytes + 15) / 16 * 16;
    s->type = type;
    return s;
}

void slab_free(struct slab *s)
{
    if (s == NULL)
        return;
    RM_ASSERT(s->n_live == 0);
    for (size_t i = 0; i < s->n_pages; i++) {
        UNPOISON(s->pages[i], PER_PAGE * s->slot_bytes);
        mem_free(s->pages[i]);
    }
    mem_free(s->pages);
    mem_free(s);
}

static void add_page(struct slab *s)
{
    s->pages = mem_realloc(s->pages, (s->n_pages + 1) * sizeof *s->pages);
    s->pages[s->n_pages++] = mem_zalloc(PER_PAGE * s->slot_bytes);
    for (int i = PER_PAGE - 1; i >= 0; i--) {
        struct slot *slot = slot_at(s, (uint32_t)((s->n_pages - 1) * PER_PAGE + (size_t)i));
        slot->index = (uint32_t)((s->n_pages - 1) * PER_PAGE + (size_t)i);
        slot->next_free = s->first_free;
        s->first_free = slot;
        POISON(slot + 1, s->object_bytes);
    }
}

void *slab_take(struct slab *s)
{
    if (s->first_free == NULL)
        add_page(s);
    struct slot *slot = s->first_free;
    s->first_free = slot->next_free;
    slot->generation++;
    RM_ASSERT(slot->generation & 1);
    s->n_live++;
    mem_count(s->type, 1);
    UNPOISON(slot + 1, s->object_bytes);
    memset(slot + 1, 0, s->object_bytes);
    return slot + 1;
}

void slab_put(struct slab *s, void *object)
{
    struct slot *slot = slot_of(object);
    RM_ASSERT(slot->generation & 1);
    slot->generation++;
    slot->next_free = s->first_free;
    s->first_free = slot;
    s->n_live--;
    mem_count(s->type, -1);
    POISON(object, s->object_bytes);
}

struct handle slab_handle(const struct slab *s, const void *object)
{
    (void)s;
    struct slot *slot = slot_of(object);
    RM_ASSERT(slot->generation & 1);
    return (struct handle){slot->index, slot->generation};
}

void *slab_get(const struct slab *s, struct handle h)
{
    if (h.generation == 0 || h.index >= s->n_pages * PER_PAGE)
        return NULL;
    struct slot *slot = slot_at(s, h.index);
    return slot->generation == h.generation ? slot + 1 : NULL;
}

size_t slab_n_live(const struct slab *s)
{
    return s->n_live;
}
