/* A call of known size has one price at each link and, when it is cut half way, another. What is left is counting: how
 * many calls out of 10^12 reach a link, and which of the three ways they go there. Counts are rounded down and the rest
 * is given to `served`, so that no call is lost or invented. */
#include "price/chain.h"

#include "base/check.h"

__extension__ typedef __int128 wide; /* calls (40 bits) times nano-dollars (63 bits) */

enum { CALLS_SHOWN = 1000 };

static int64_t part_of(int64_t n, uint32_t ppm)
{
    return (int64_t)((wide)n * ppm / PPM);
}

/* Half away from zero. */
static int64_t divide(wide v, int64_t by)
{
    wide half = by / 2;
    wide q = v < 0 ? -((-v + half) / by) : (v + half) / by;
    return q > INT64_MAX ? INT64_MAX : q < -INT64_MAX ? -INT64_MAX : (int64_t)q;
}

static bool is_unknown(int64_t nusd)
{
    return nusd == NUSD_UNKNOWN;
}

/* A sum of calls times prices; one unknown price that is needed makes it unknown. */
struct sum {
    wide v;
    bool is_unknown;
};

static void add(struct sum *s, int64_t calls, int64_t nusd)
{
    if (calls == 0)
        return;
    s->is_unknown |= is_unknown(nusd);
    s->v += is_unknown(nusd) ? 0 : (wide)calls * nusd;
}

static int64_t per_thousand(const struct sum *s)
{
    return s->is_unknown ? NUSD_UNKNOWN : divide(s->v, CHAIN_CALLS / CALLS_SHOWN);
}

/* A call as it is served, as it is cut, and as it is cut before it generated anything. */
struct three {
    int64_t whole, cut, early;
};

static struct usage with_output(const struct usage *call, uint32_t ppm)
{
    struct usage u = *call;
    u.output = u.output > 0 ? divide((wide)u.output * ppm, PPM) : 0;
    u.reasoning = u.reasoning > 0 ? divide((wide)u.reasoning * ppm, PPM) : 0;
    return u;
}

/* Of an attempt that is cut when so much of its output is generated. */
static int64_t price_cut(const struct chain_link *l, const struct usage *call, uint32_t generated_ppm)
{
    struct usage u = *call;
    switch (l->cut) {
    case ABORT_INPUT_AND_GENERATED:
        u = with_output(call, generated_ppm);
        return price_cost(l->price, &u);
    case ABORT_INPUT:
        u = with_output(call, 0);
        return price_cost(l->price, &u);
    case ABORT_RUNS_ON:
        return price_cost(l->price, &u);
    case ABORT_NOTHING:
    case ABORT_N_RULES:
        break;
    }
    return 0;
}

static struct three prices_of(const struct chain_ask *ask, size_t i)
{
    const struct chain_link *l = &ask->links[i];
    return (struct three){price_cost(l->price, &ask->call), price_cut(l, &ask->call, ask->waste_ppm),
                          price_cut(l, &ask->call, 0)};
}

static void split(const struct chain_link *l, int64_t reached, struct chain_step *s)
{
    int64_t failed = part_of(reached, l->fail_ppm);
    s->reached = reached;
    s->hung = part_of(failed, l->hang_ppm);
    s->fast = failed - s->hung;
    s->served = reached - failed;
}

void chain_sequential(const struct chain_ask *ask, struct chain_bill *out)
{
    RM_ASSERT(ask->n >= 1 && ask->n <= CHAIN_LINKS_MAX);
    struct sum cost = {0}, waste = {0};
    int64_t left = CHAIN_CALLS;
    *out = (struct chain_bill){0};
    for (size_t i = 0; i < ask->n; i++) {
        struct chain_step *s = &out->steps[i];
        struct three price = prices_of(ask, i);
        struct sum mine = {0}, lost = {0};
        RM_ASSERT(ask->links[i].fail_ppm <= PPM && ask->links[i].hang_ppm <= PPM);
        split(&ask->links[i], left, s);
        add(&lost, s->hung, price.cut);
        add(&mine, s->served, price.whole);
        add(&mine, s->hung, price.cut);
        s->cost_nusd = per_thousand(&mine);
        s->waste_nusd = per_thousand(&lost);
        cost = (struct sum){cost.v + mine.v, cost.is_unknown || mine.is_unknown};
        waste = (struct sum){waste.v + lost.v, waste.is_unknown || lost.is_unknown};
        left = s->reached - s->served;
    }
    out->cost_nusd = per_thousand(&cost);
    out->waste_nusd = per_thousand(&waste);
    out->unanswered = left;
}

int64_t chain_hedged(const struct chain_ask *ask, bool cancels)
{
    RM_ASSERT(ask->n >= 1 && ask->n <= CHAIN_LINKS_MAX);
    struct chain_step a, b, beside;
    struct three first = prices_of(ask, 0);
    struct sum sum = {0};
    split(&ask->links[0], CHAIN_CALLS, &a);
    add(&sum, a.served, first.whole);
    add(&sum, a.hung, first.cut);
    if (ask->n > 1) {
        struct three second = prices_of(ask, 1);
        split(&ask->links[1], a.served, &beside); /* runs beside an answer */
        add(&sum, beside.served, cancels ? second.early : second.whole);
        add(&sum, beside.hung, cancels ? second.early : second.cut);
        split(&ask->links[1], CHAIN_CALLS - a.served, &b); /* is the answer */
        add(&sum, b.served, second.whole);
        add(&sum, b.hung, second.cut);
    }
    return per_thousand(&sum);
}

static int64_t thousand(int64_t nusd)
{
    return is_unknown(nusd) ? nusd : divide((wide)nusd * CALLS_SHOWN, 1);
}

int64_t chain_alone(const struct price *p, const struct usage *call)
{
    return thousand(price_cost(p, call));
}

int64_t chain_cut(const struct price *p, const struct usage *call, uint32_t waste_ppm)
{
    struct usage u = with_output(call, waste_ppm);
    return thousand(price_cost(p, &u));
}

int64_t chain_share(int64_t nusd, uint32_t ppm)
{
    return is_unknown(nusd) ? nusd : divide((wide)nusd * ppm, PPM);
}
