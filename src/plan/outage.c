/* How long will it last? Two voices are heard.
 *
 * What is true of outages in general: the chance to last longer than x is (1 + x / 1 s)^-1.4, a law with a heavy tail
 * (Lomax). Most failures are over within seconds, and one that has lasted long will last long: what is still to come
 * grows with what has been, 2.5 times as much on average. A law with a typical length (exponential, say) would promise
 * after ten minutes the same few seconds as after one. The shape was chosen over simulated traffic as the one that pays
 * neither for short outages nor for long ones (test_cache_bill).
 *
 * What this target did before: its last sixteen outages count one each, the general law counts three. So
 *
 *     P(longer than x) = (number of past ones longer than x + 3 (1 + x)^-1.4) / (number + 3)
 *
 * and what is asked for is that at `to` divided by that at `from`, where the divisor goes away. Outages longer than any
 * before are the general law's alone.
 *
 * A target that fails again within two seconds of its recovery had not recovered: the outage goes on. */
#include "plan/outage.h"

#include "base/bytes.h"

#include <math.h>
#include <string.h>

#define GENERAL_SHAPE 1.4
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

void outages_bad(struct outages *o, uint16_t target_id, uint64_t now_us)
{
    struct outage *out = take(o, target_id);
    out->news_us = now_us;
    if (out->closed_us != 0 && now_us >= out->closed_us + RELAPSE_US) {
        remember(out, out->closed_us - out->since_us);
        out->since_us = 0;
    }
    if (out->since_us == 0)
        out->since_us = now_us;
    out->closed_us = 0;
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

uint64_t outage_age_us(const struct outage *o, uint64_t now_us)
{
    if (o == NULL || o->since_us == 0 || o->closed_us != 0 || now_us < o->since_us)
        return 0;
    return now_us - o->since_us;
}

static double weight_beyond(const struct outage *o, uint64_t us)
{
    double n = GENERAL_WEIGHT * pow(1.0 + (double)us / SECOND_US, -GENERAL_SHAPE);
    for (uint32_t i = 0; o != NULL && i < o->n_past; i++)
        n += (uint64_t)o->past_ms[i] * 1000 > us;
    return n;
}

double outage_survival(const struct outage *o, uint64_t from_us, uint64_t to_us)
{
    return to_us <= from_us ? 1.0 : weight_beyond(o, to_us) / weight_beyond(o, from_us);
}
