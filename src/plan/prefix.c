/* Will it come again? A prefix that came n times came back n - 1 times out of n - 1 chances, which says little while n
 * is small. So the population is heard too: of all new prefixes the share that came again weighs as two chances. A
 * stream of prompts that never repeat so drives the answer to zero, whatever a single one looks like, and a system
 * prompt that came a thousand times is sure to come again. */
#include "plan/prefix.h"

#include "base/bytes.h"
#include "base/mem.h"

#define POPULATION_WEIGHT 2.0
#define RECENT 0.25 /* of the newest gap in the mean */

enum { POPULATION_MAX = 512, FIRST_GAP_US = 60000000 };

struct prefixes {
    double n_new, n_came_again; /* fade: halved at POPULATION_MAX */
    double gap_us;              /* between a prefix's first and second arrival */
    struct prefix v[PREFIX_BUCKETS][PREFIX_WAYS];
};

struct prefixes *prefixes_new(void)
{
    struct prefixes *p = mem_zalloc(sizeof *p);
    p->n_new = 2; /* before anything is known: every other one, after a minute */
    p->n_came_again = 1;
    p->gap_us = FIRST_GAP_US;
    return p;
}

void prefixes_free(struct prefixes *p)
{
    mem_free(p);
}

static struct prefix *bucket_of(const struct prefixes *p, uint64_t key)
{
    uint64_t spread = key * 0x9e3779b97f4a7c15ULL;
    return (struct prefix *)p->v[spread >> 54];
}

struct prefix *prefixes_find(const struct prefixes *p, uint64_t key)
{
    struct prefix *b = bucket_of(p, key);
    for (int i = 0; i < PREFIX_WAYS && key != 0; i++)
        if (b[i].key == key)
            return &b[i];
    return NULL;
}

static void count_new(struct prefixes *p)
{
    p->n_new++;
    if (p->n_new > POPULATION_MAX) {
        p->n_new /= 2;
        p->n_came_again /= 2;
    }
}

static void count_second(struct prefixes *p, double gap_us)
{
    p->n_came_again++;
    p->gap_us += (gap_us - p->gap_us) / 16;
}

static struct prefix *place(struct prefixes *p, uint64_t key)
{
    struct prefix *b = bucket_of(p, key), *oldest = &b[0];
    for (int i = 0; i < PREFIX_WAYS; i++)
        if (b[i].last_us < oldest->last_us)
            oldest = &b[i];
    *oldest = (struct prefix){.key = key};
    return oldest;
}

static void come_again(struct prefixes *p, struct prefix *x, uint64_t ttl_us, uint64_t now_us)
{
    double gap = now_us > x->last_us ? (double)(now_us - x->last_us) : 0;
    if (gap > (double)ttl_us) { /* too late to be a reuse: a new life, with half of what the old one taught */
        x->n = 1 + (x->n - 1) / 2;
        if (x->n == 1)
            count_new(p);
        return;
    }
    if (x->n == 1)
        count_second(p, gap);
    x->gap_us = x->gap_us == 0 ? gap : x->gap_us + (gap - x->gap_us) * RECENT;
    if (x->n < UINT32_MAX)
        x->n++;
}

void prefixes_see(struct prefixes *p, uint64_t key, uint64_t ttl_us, uint64_t now_us)
{
    struct prefix *x = prefixes_find(p, key);
    if (key == 0)
        return;
    if (x != NULL) {
        come_again(p, x, ttl_us, now_us);
    } else {
        x = place(p, key);
        x->n = 1;
        count_new(p);
    }
    x->last_us = now_us;
}

struct rhythm prefixes_rhythm(const struct prefixes *p, const struct prefix *x)
{
    double share = p->n_came_again < p->n_new ? p->n_came_again / p->n_new : 1.0;
    double n = x != NULL && x->n > 0 ? x->n - 1 : 0;
    return (struct rhythm){.gap_us = n > 0 ? x->gap_us : p->gap_us,
                           .again = (n + POPULATION_WEIGHT * share) / (n + POPULATION_WEIGHT)};
}

void prefix_warm(struct prefix *x, uint16_t target_id, uint32_t n_tokens, uint64_t until_us)
{
    struct warmth *slot = &x->warm[0];
    for (int i = 0; i < PREFIX_WARM; i++)
        if (x->warm[i].until_us < slot->until_us)
            slot = &x->warm[i];
    for (int i = 0; i < PREFIX_WARM; i++)
        if (x->warm[i].until_us != 0 && x->warm[i].target_id == target_id)
            slot = &x->warm[i];
    if (n_tokens > 0)
        *slot = (struct warmth){target_id, n_tokens, until_us};
    else if (slot->target_id == target_id)
        *slot = (struct warmth){0};
}

uint32_t prefix_warmth(const struct prefix *x, uint16_t target_id, uint64_t now_us)
{
    for (int i = 0; x != NULL && i < PREFIX_WARM; i++)
        if (x->warm[i].target_id == target_id && x->warm[i].until_us > now_us)
            return x->warm[i].n_tokens;
    return 0;
}
