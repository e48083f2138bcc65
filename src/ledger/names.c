#include "ledger/names.h"

#include "base/check.h"
#include "base/mem.h"

struct names *names_new(void)
{
    return mem_zalloc(sizeof(struct names));
}

void names_clear(struct names *t)
{
    for (size_t i = 0; i < RM_COUNTOF(t->slots); i++)
        mem_free(t->slots[i].text);
    memset(t, 0, sizeof *t);
}

void names_free(struct names *t)
{
    if (t == NULL)
        return;
    names_clear(t);
    mem_free(t);
}

/* The slot that holds the text, or the empty one where it belongs. At most half of the slots are taken. */
static size_t slot_of(const struct names *t, struct bytes text)
{
    size_t i = (size_t)bytes_hash(text, 0) % RM_COUNTOF(t->slots);
    while (t->slots[i].text != NULL && !bytes_is(text, t->slots[i].text))
        i = (i + 1) % RM_COUNTOF(t->slots);
    return i;
}

const struct name *names_find(const struct names *t, struct bytes text)
{
    const struct name *s = &t->slots[slot_of(t, text)];
    return s->text != NULL ? s : NULL;
}

bool names_put(struct names *t, struct bytes text, int64_t id)
{
    if (id > t->last_id)
        t->last_id = id;
    if (t->n >= NAMES_MAX)
        return false;
    struct name *s = &t->slots[slot_of(t, text)];
    if (s->text != NULL)
        return true;
    s->text = mem_dup(text.p, text.n);
    s->id = id;
    t->n++;
    return true;
}
