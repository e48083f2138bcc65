#include "plan/hedge.h"

#include "base/bytes.h"
#include "base/mem.h"

enum { ROUTES_MAX = 256 };
#define HALVING_US UINT64_C(3600000000)
#define MINUTE_US UINT64_C(60000000)

struct share {
    int64_t all, lost, n; /* n: attempts in `all` */
};

struct row {
    uint64_t route; /* hash of its name; 0 = free */
    uint64_t halved_us;
    struct share money, attempts;
    int64_t n_out;    /* hedges whose requests are not over: each may lose an attempt */
    bool has_unknown; /* a cost was not known: attempts decide */
};

struct hedge_book {
    struct row rows[ROUTES_MAX];
};

struct hedge_book *hedge_book_new(void)
{
    return mem_zalloc_lines(sizeof(struct hedge_book));
}

void hedge_book_free(struct hedge_book *b)
{
    mem_free(b);
}

static uint64_t hash_of(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h != 0 ? h : 1;
}

static void halve(struct share *s)
{
    s->all /= 2;
    s->lost /= 2;
    s->n /= 2;
}

/* NULL = the book is full: then there are no hedges, for nobody would know what they cost. */
static struct row *row_of(struct hedge_book *b, const char *route, uint64_t now_us)
{
    uint64_t h = hash_of(route);
    for (size_t i = 0; i < ROUTES_MAX; i++) {
        struct row *row = &b->rows[(h + i) % ROUTES_MAX];
        if (row->route != h && row->route != 0)
            continue;
        if (row->route == 0)
            *row = (struct row){.route = h, .halved_us = now_us};
        for (; now_us - row->halved_us >= HALVING_US && row->attempts.n > 0; row->halved_us += HALVING_US) {
            halve(&row->money);
            halve(&row->attempts);
        }
        if (now_us - row->halved_us >= HALVING_US)
            row->halved_us = now_us;
        return row;
    }
    return NULL;
}

/* With what is out and one more, each losing an attempt of the usual cost, the share would be kept. */
static bool has_room(const struct share *s, int64_t n_out, uint32_t permyriad)
{
    if (s->n <= 0)
        return false;
    __int128 usual = s->all / s->n;
    return (s->lost + usual * (n_out + 1)) * 10000 <= (__int128)s->all * permyriad;
}

bool hedge_may(struct hedge_book *b, struct registry *r, const struct route_conf *route, const struct link_conf *slow,
               uint64_t now_us)
{
    const struct hedge_conf *h = &route->hedge;
    struct row *row = row_of(b, route->model, now_us);
    if (row == NULL || !has_room(row->has_unknown ? &row->attempts : &row->money, row->n_out, h->max_extra_permyriad) ||
        !registry_take_hedge(r, slow->target_id, now_us / MINUTE_US, h->max_per_minute))
        return false;
    row->n_out++;
    return true;
}

static void add(struct share *s, int64_t amount, bool is_lost)
{
    s->all += amount;
    s->lost += is_lost ? amount : 0;
    s->n++;
}

void hedge_settle(struct hedge_book *b, const struct route_conf *route, const struct request_record *rec,
                  uint64_t now_us)
{
    struct row *row = row_of(b, route->model, now_us);
    for (size_t i = 0; row != NULL && i < rec->n_attempts; i++) {
        const struct attempt_record *a = &rec->attempts[i];
        bool is_lost = a->outcome == OUTCOME_HEDGE_LOST;
        row->n_out -= a->kind == ATTEMPT_HEDGE && row->n_out > 0;
        if (!a->is_started)
            continue;
        add(&row->attempts, 1, is_lost);
        if (a->cost_nusd == NUSD_UNKNOWN)
            row->has_unknown = true;
        else
            add(&row->money, a->cost_nusd, is_lost);
    }
}
