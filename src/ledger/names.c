#include "ledger/names.h"

#include "base/check.h"
#include "base/mem.h"

enum { SLOTS_MIN = 64 }; /* a power of two */

struct names *names_new(void)
{
    return mem_zalloc(sizeof(struct names));
}

void names_clear(struct names *t)
{
    for (size_t i = 0; i < t->n_slots; i++)
        mem_free(t->slots[i].text);
    mem_free(t->slots);
    memset(t, 0, sizeof *t);
}

void names_free(struct names *t)
{
    if (t == NULL)
        return;
    names_clear(t);
    mem_free(t);
}

/* The slot that holds the text, or the empty one where it belongs. There are some, and at most half are taken. */
static struct name *slot_of(const struct names *t, struct bytes text)
{
    size_t i = (size_t)bytes_hash(text, 0) & (t->n_slots - 1);
    while (t->slots[i].text != NULL && !bytes_is(text, t->slots[i].text))
        i = (i + 1) & (t->n_slots - 1);
    return &t->slots[i];
}

static void grow(struct names *t)
{
    struct names old = *t;
    t->n_slots = old.n_slots > 0 ? 2 * old.n_slots : SLOTS_MIN;
    t->slots = mem_zalloc(t->n_slots * sizeof *t->slots);
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].text != NULL)
            *slot_of(t, bytes_of(old.slots[i].text)) = old.slots[i];
    mem_free(old.slots);
}

const struct name *names_find(const struct names *t, struct bytes text)
{
    const struct name *s = t->n > 0 ? slot_of(t, text) : NULL;
    return s != NULL && s->text != NULL ? s : NULL;
}

bool names_put(struct names *t, struct bytes text, int64_t id)
{
    if (id > t->last_id)
        t->last_id = id;
    if (t->n >= NAMES_MAX)
        return false;
    if (2 * (size_t)t->n >= t->n_slots)
        grow(t);
    struct name *s = slot_of(t, text);
    if (s->text != NULL)
        return true;
    *s = (struct name){mem_dup(text.p, text.n), id};
    t->n++;
    return true;
}
