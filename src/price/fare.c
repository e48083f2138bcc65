/* A walk over the spans: a target has a handful, and an attempt asks once. */
#include "price/fare.h"

#include "base/check.h"

#include <string.h>

enum { SPANS_FIRST = 4 };

void fare_put(struct fare *f, struct arena *a, const struct fare_span *span)
{
    RM_ASSERT(span->price != NULL && span->service != NULL);
    RM_ASSERT(f->n == 0 || span->layer >= f->v[f->n - 1].layer);
    if (f->n == FARE_SPANS_MAX)
        return;
    if (f->n == f->cap) {
        f->cap = f->cap > 0 ? 2 * f->cap : SPANS_FIRST;
        struct fare_span *more = ARENA_ARRAY(a, struct fare_span, f->cap);
        for (size_t i = 0; i < f->n; i++)
            more[i] = f->v[i];
        f->v = more;
    }
    f->v[f->n++] = *span;
}

static bool holds(const struct fare_span *s, int64_t wall_ms)
{
    return wall_ms >= s->from_ms && wall_ms < s->until_ms;
}

const struct price *fare_at(const struct fare *f, const char *service, int64_t wall_ms, bool *is_standin)
{
    const struct fare_span *standard = NULL;
    bool is_standard = service == NULL || service[0] == '\0' || strcmp(service, "standard") == 0;
    const char *word = is_standard ? "" : service;
    *is_standin = false;
    for (size_t i = 0; f != NULL && i < f->n; i++) {
        const struct fare_span *s = &f->v[i];
        if (standard != NULL && s->layer != standard->layer)
            break;
        if (!holds(s, wall_ms))
            continue;
        if (strcmp(s->service, word) == 0)
            return s->price;
        if (standard == NULL && s->service[0] == '\0')
            standard = s;
    }
    *is_standin = standard != NULL;
    return standard != NULL ? standard->price : NULL;
}

static const struct fare_span *standard_at(const struct fare *f, int64_t wall_ms)
{
    for (size_t i = 0; f != NULL && i < f->n; i++)
        if (f->v[i].service[0] == '\0' && holds(&f->v[i], wall_ms))
            return &f->v[i];
    return NULL;
}

int64_t fare_end_ms(const struct fare *f, int64_t wall_ms)
{
    const struct fare_span *s = standard_at(f, wall_ms);
    int64_t end = INT64_MAX;
    for (size_t steps = 0; s != NULL && steps <= f->n; steps++) { /* from one to the one after it */
        end = s->until_ms;
        s = end != INT64_MAX ? standard_at(f, end) : NULL;
    }
    if (end != INT64_MAX || standard_at(f, wall_ms) != NULL)
        return end;
    for (size_t i = 0; f != NULL && i < f->n; i++) {
        const struct fare_span *x = &f->v[i];
        bool is_past = x->service[0] == '\0' && x->until_ms <= wall_ms;
        if (is_past && (end == INT64_MAX || x->until_ms > end))
            end = x->until_ms;
    }
    return end;
}
