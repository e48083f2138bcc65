#include "ledger_sim.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>

void ledger_sim_init(struct ledger *l)
{
    *l = (struct ledger){0};
    for (size_t i = 0; i < LEDGER_SIM_CORES; i++)
        l->rings[i].ledger = l;
}

void ledger_sim_fini(struct ledger *l)
{
    mem_free(l->rows);
    l->rows = NULL;
}

static struct row *new_row(struct ledger *l)
{
    if (l->n == l->cap) {
        l->cap = l->cap == 0 ? 16 : l->cap * 2;
        l->rows = mem_realloc(l->rows, l->cap * sizeof *l->rows);
    }
    struct row *row = &l->rows[l->n++];
    *row = (struct row){0};
    return row;
}

static void keep_attempt(struct row *row, const struct attempt_record *a)
{
    if (row->n_attempts == ROW_ATTEMPTS_MAX)
        return;
    struct row_attempt *to = &row->attempts[row->n_attempts++];
    *to = (struct row_attempt){.outcome = a->outcome,
                               .is_started = a->is_started,
                               .is_served = a->is_served,
                               .in_stream = a->in_stream,
                               .status = a->status,
                               .start_us = a->start_us,
                               .connect_us = a->connect_us,
                               .ttft_us = a->ttft_us,
                               .total_us = a->total_us};
    snprintf(to->provider, sizeof to->provider, "%s", a->provider);
}

struct ledger_ring *ledger_ring(struct ledger *l, unsigned i)
{
    RM_ASSERT(i < LEDGER_SIM_CORES);
    return &l->rings[i];
}

bool ledger_put(struct ledger_ring *r, const struct request_record *rec)
{
    struct row *row = new_row(r->ledger);
    row->id = rec->id;
    row->is_stream = rec->is_stream;
    row->outcome = rec->outcome;
    row->status = rec->status;
    row->served_link = rec->served_link;
    row->ttft_us = rec->ttft_us;
    row->total_us = rec->total_us;
    row->n_started = rec->n_started;
    for (uint16_t i = 0; i < rec->n_attempts; i++)
        keep_attempt(row, &rec->attempts[i]);
    return true;
}

bool ledger_put_keepalive(struct ledger_ring *r, uint64_t id, int64_t started_wall_ms, const struct attempt_record *a)
{
    (void)started_wall_ms;
    struct row *row = new_row(r->ledger);
    row->id = id;
    row->is_keepalive = true;
    row->outcome = a->outcome;
    keep_attempt(row, a);
    return true;
}

void ledger_stats(const struct ledger *l, struct ledger_stats *out)
{
    *out = (struct ledger_stats){.rows_written = l->n};
}

const struct row *ledger_sim_request(const struct ledger *l, size_t n)
{
    for (size_t i = 0; i < l->n; i++)
        if (!l->rows[i].is_keepalive && n-- == 0)
            return &l->rows[i];
    return NULL;
}

size_t ledger_sim_n_keepalives(const struct ledger *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->rows[i].is_keepalive;
    return n;
}
