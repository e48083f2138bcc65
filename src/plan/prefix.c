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
    bool has_any;               /* without one the table is not looked at: it lies far apart */
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

bool prefixes_is_empty(const struct prefixes *p)
{
    return !p->has_any;
}

static struct prefix *bucket_of(const struct prefixes *p, uint64_t key)
{
    uint64_t spread = key * 0x9e3779b97f4a7c15ULL;
    return (struct prefix *)p->v[spread >> 54];
}

struct prefix *prefixes_find(const struct prefixes *p, uint64_t key)
{
    if (!p->has_any || key == 0)
        return NULL;
    struct prefix *b = bucket_of(p, key);
    for (int i = 0; i < PREFIX_WAYS; i++)
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
    p->has_any = true;
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

/* ---- over a restart ---- */

enum { TIMES_MAX = 1 << 20, TOKENS_MAX = 1 << 30 };
#define KEEP_US ((uint64_t)PREFIX_KEEP_S * 1000000)

static void write_one(const struct prefix *x, const struct registry *r, uint64_t now_us, struct buf *out)
{
    uint64_t ago_us = now_us > x->last_us ? now_us - x->last_us : 0;
    if (x->key == 0 || ago_us >= KEEP_US)
        return;
    buf_printf(out, "prefix %016llx %llu %llu %u %u\n", (unsigned long long)x->key, (unsigned long long)ago_us,
               (unsigned long long)x->gap_us, x->n < TIMES_MAX ? x->n : TIMES_MAX,
               x->n_output < TOKENS_MAX ? x->n_output : TOKENS_MAX);
    for (int i = 0; i < PREFIX_WARM; i++) {
        const struct warmth *w = &x->warm[i];
        if (w->until_us > now_us && w->n_tokens > 0 && w->n_tokens <= TOKENS_MAX)
            buf_printf(out, "warm %016llx %u %llu %s\n", (unsigned long long)x->key, w->n_tokens,
                       (unsigned long long)(w->until_us - now_us), registry_target_name(r, w->target_id));
    }
}

void prefixes_write(const struct prefixes *p, const struct registry *r, uint64_t now_us, struct buf *out)
{
    for (size_t b = 0; b < PREFIX_BUCKETS; b++)
        for (size_t i = 0; i < PREFIX_WAYS; i++)
            write_one(&p->v[b][i], r, now_us, out);
}

static bool read_key(struct bytes *line, uint64_t *key)
{
    struct bytes text = bytes_cut(line, ' ');
    *key = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
        if (!is_digit && !is_letter)
            return false;
        *key = *key << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
    }
    return text.n == 16 && *key != 0;
}

static bool read_number(struct bytes *line, uint64_t max, uint64_t *out)
{
    return bytes_to_u64(bytes_cut(line, ' '), out) && *out <= max;
}

/* What came too long ago to be looked for, or before this machine's clock began, is passed over. */
static enum err read_prefix(struct prefixes *p, struct bytes line, uint64_t away_us, uint64_t now_us)
{
    uint64_t key, ago_us, gap_us, n, n_output;
    if (!read_key(&line, &key) || !read_number(&line, KEEP_US, &ago_us) || !read_number(&line, KEEP_US, &gap_us) ||
        !read_number(&line, TIMES_MAX, &n) || !read_number(&line, TOKENS_MAX, &n_output) || n == 0 || line.n > 0)
        return ERR_SYNTAX;
    if (away_us >= KEEP_US || ago_us + away_us >= KEEP_US || ago_us + away_us >= now_us)
        return ERR_OK;
    uint64_t last_us = now_us - ago_us - away_us;
    struct prefix *x = prefixes_find(p, key);
    x = x != NULL ? x : place(p, key);
    if (last_us > x->last_us) {
        x->last_us = last_us;
        x->n_output = (uint32_t)n_output;
    }
    if (n > x->n) {
        x->n = (uint32_t)n;
        x->gap_us = (double)gap_us;
    }
    return ERR_OK;
}

static enum err read_warmth(struct prefixes *p, struct registry *r, struct bytes line, uint64_t away_us,
                            uint64_t now_us)
{
    uint64_t key, n_tokens, left_us;
    uint16_t id;
    if (!read_key(&line, &key) || !read_number(&line, TOKENS_MAX, &n_tokens) ||
        !read_number(&line, KEEP_US, &left_us) || n_tokens == 0)
        return ERR_SYNTAX;
    enum err e = registry_intern_name(r, line, &id);
    struct prefix *x = prefixes_find(p, key);
    if (e != ERR_OK || x == NULL || left_us <= away_us)
        return e;
    prefix_warm(x, id, (uint32_t)n_tokens, now_us + left_us - away_us);
    return ERR_OK;
}

enum err prefixes_read_line(struct prefixes *p, struct registry *r, struct bytes line, uint64_t away_us,
                            uint64_t now_us)
{
    struct bytes word = bytes_cut(&line, ' ');
    if (bytes_is(word, "prefix"))
        return read_prefix(p, line, away_us, now_us);
    return bytes_is(word, "warm") ? read_warmth(p, r, line, away_us, now_us) : ERR_SYNTAX;
}
