/* How long will it last? Two voices are heard.
 *
 * What is true of outages in general: there are two kinds. Most are fits of seconds: a restart, a burst of load, a
 * route that flaps. The chance that one lasts longer than x is exp(-(x / 10 s)^4), so that nearly all are over within
 * twelve seconds. A few, six in a thousand, are real: longer than x with the chance (1 + x / 120 s)^-0.5, a law with a
 * heavy tail, under which what is still to come grows with what has been. Which kind it is, its length tells: after
 * five seconds it is a fit with 150 to 1, after fifteen an outage as likely as not. One law with one shape for both
 * (this was (1 + x)^-1.4 once) cannot say that: it buys caches for fits that are about to end, and stays shy of buying
 * them for minutes of an outage that lasts an hour. The numbers were chosen over steady traffic of all rhythms and over
 * mixed traffic as those under which neither a short outage nor a long one costs much (test_cache_bill).
 *
 * What this target did before: its last sixteen outages count one each, the general law counts three. So
 *
 *     P(longer than x) = (number of past ones longer than x + 3 general(x)) / (number + 3)
 *
 * and what is asked for is that at `to` divided by that at `from`, where the divisor goes away. Outages longer than any
 * before are the general law's alone.
 *
 * What is known is what was seen: a target that nobody asks because its health has closed it may have recovered long
 * ago. So the law is asked from the last failure, not from now; but until it is asked again it is away for certain.
 * Who tries it then may be another core: that a target is closed until a later moment than before is a failure too.
 *
 * A target that fails again within two seconds of its recovery had not recovered: the outage goes on. */
#include "plan/outage.h"

#include "base/bytes.h"

#include <math.h>
#include <string.h>

#define FIT_S 10.0
#define FIT_SHAPE 4.0
#define LONG_SHARE 0.006
#define LONG_S 120.0
#define LONG_SHAPE 0.5
#define GENERAL_WEIGHT 3.0

enum { SECOND_US = 1000000, RELAPSE_US = 2 * SECOND_US };

static struct outage *find(const struct outages *o, uint16_t target_id)
{
    for (uint32_t i = 0; i < o->n; i++)
        if (o->v[i].target_id == target_id)
            return (struct outage *)&o->v[i];
    return NULL;
}

static struct outage *take(struct outages *o, uint16_t target_id)
{
    struct outage *found = find(o, target_id);
    if (found != NULL)
        return found;
    if (o->n < OUTAGE_TARGETS) {
        found = &o->v[o->n++];
    } else {
        found = &o->v[0];
        for (uint32_t i = 1; i < o->n; i++)
            if (o->v[i].news_us < found->news_us)
                found = &o->v[i];
    }
    *found = (struct outage){.target_id = target_id};
    return found;
}

static void remember(struct outage *o, uint64_t length_us)
{
    if (o->n_past == OUTAGE_PAST) {
        memmove(o->past_ms, o->past_ms + 1, sizeof o->past_ms - sizeof o->past_ms[0]);
        o->n_past--;
    }
    uint64_t ms = length_us / 1000;
    o->past_ms[o->n_past++] = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* It is away, as it was or anew. */
static struct outage *go_on(struct outages *o, uint16_t target_id, uint64_t now_us)
{
    struct outage *out = take(o, target_id);
    out->news_us = now_us;
    if (out->closed_us != 0 && now_us >= out->closed_us + RELAPSE_US) {
        remember(out, out->closed_us - out->since_us);
        out->since_us = 0;
    }
    if (out->since_us == 0) {
        out->since_us = out->failed_us = now_us;
        out->until_us = 0;
    }
    out->closed_us = 0;
    return out;
}

void outages_bad(struct outages *o, uint16_t target_id, uint64_t now_us)
{
    go_on(o, target_id, now_us)->failed_us = now_us;
}

void outages_shut(struct outages *o, uint16_t target_id, uint64_t now_us, uint64_t until_us)
{
    struct outage *out = go_on(o, target_id, now_us);
    bool was_tried = out->until_us != 0 && until_us > out->until_us && now_us >= out->until_us;
    if (was_tried && out->until_us > out->failed_us)
        out->failed_us = out->until_us;
    if (until_us > out->until_us)
        out->until_us = until_us;
}

void outages_good(struct outages *o, uint16_t target_id, uint64_t now_us)
{
    struct outage *out = find(o, target_id);
    if (out == NULL || out->since_us == 0 || out->closed_us != 0)
        return;
    out->news_us = out->closed_us = now_us > out->since_us ? now_us : out->since_us;
}

void outages_remember(struct outages *o, uint16_t target_id, uint64_t length_us, uint64_t now_us)
{
    struct outage *out = take(o, target_id);
    out->news_us = now_us;
    remember(out, length_us);
}

const struct outage *outages_find(const struct outages *o, uint16_t target_id)
{
    return find(o, target_id);
}

static bool is_on(const struct outage *o)
{
    return o != NULL && o->since_us != 0 && o->closed_us == 0;
}

struct outage_span outage_span(const struct outage *o, uint64_t now_us, uint64_t until_us)
{
    struct outage_span s = {.outage = o, .sure_us = until_us > now_us ? until_us - now_us : 0};
    if (is_on(o) && now_us > o->since_us) {
        s.age_us = now_us - o->since_us;
        s.known_us = o->failed_us < now_us ? o->failed_us - o->since_us : s.age_us;
    }
    return s;
}

static double general(uint64_t us)
{
    double s = (double)us / SECOND_US;
    return (1 - LONG_SHARE) * exp(-pow(s / FIT_S, FIT_SHAPE)) + LONG_SHARE * pow(1 + s / LONG_S, -LONG_SHAPE);
}

static double weight_beyond(const struct outage *o, uint64_t us)
{
    double n = GENERAL_WEIGHT * general(us);
    for (uint32_t i = 0; o != NULL && i < o->n_past; i++)
        n += (uint64_t)o->past_ms[i] * 1000 > us;
    return n;
}

double outage_survival(const struct outage *o, uint64_t from_us, uint64_t to_us)
{
    return to_us <= from_us ? 1.0 : weight_beyond(o, to_us) / weight_beyond(o, from_us);
}

double outage_lasts(const struct outage_span *s, uint64_t more_us)
{
    return more_us <= s->sure_us ? 1.0 : outage_survival(s->outage, s->known_us, s->age_us + more_us);
}
