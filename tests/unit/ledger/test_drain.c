/* A drain with a place of the test's own. */
#include "unit.h"

#include "base/check.h"
#include "base/mem.h"
#include "ledger/drain.h"

#include <stdatomic.h>

enum { N_RINGS = 2, N_RECORDS = 3000 };

struct place {
    struct drain drain;
    int refusals; /* batches that it does not take, at their end */
    uint64_t batch[DRAIN_BATCH_ROWS], n_batch;
    uint64_t next[N_RINGS]; /* id that must come next from each */
    uint64_t n_groups, n_batches;
};

static bool begin(void *arg)
{
    struct place *p = arg;
    p->n_batch = 0;
    p->n_batches++;
    return true;
}

static bool put(const struct packed *g, unsigned n, void *arg)
{
    struct place *p = arg;
    RM_ASSERT(n > 0 && n <= DRAIN_GROUP && p->n_batch + n <= DRAIN_BATCH_ROWS);
    for (unsigned i = 0; i < n; i++)
        p->batch[p->n_batch++] = g[i].record.id;
    p->n_groups++;
    return true;
}

static bool end(void *arg)
{
    struct place *p = arg;
    if (p->refusals > 0) {
        p->refusals--;
        return false;
    }
    for (uint64_t i = 0; i < p->n_batch; i++) {
        uint64_t ring = p->batch[i] % N_RINGS;
        RM_ASSERT(p->batch[i] == p->next[ring]);
        p->next[ring] += N_RINGS;
    }
    return true;
}

static void tick(bool is_last, void *arg)
{
}

static void start(struct place *p, unsigned sip, uint32_t flush_ms, int refusals)
{
    struct drain_sink sink = {begin, put, end, tick, p, "records", sip};
    *p = (struct place){.refusals = refusals, .next = {0, 1}};
    assert_true(drain_start(&p->drain, &sink, N_RINGS, flush_ms, 1 << 20, N_RECORDS));
}

static void give(struct place *p, uint64_t from, uint64_t to)
{
    struct attempt_record a = {.provider = "a", .model = "m", .price_version = ""};
    for (uint64_t id = from; id < to; id++) {
        struct buf b = {0};
        pack_keepalive(&b, id, 0, &a);
        assert_true(drain_put(&p->drain, (unsigned)(id % N_RINGS), buf_bytes(&b)));
        buf_fini(&b);
    }
}

/* Sips of any length, rests or none (the last look never rests): each record once, in its ring's order. */
static void all_once_and_in_order(void **state)
{
    static const unsigned sips[] = {1, 8, 100, 100000};
    static struct place p;
    for (size_t i = 0; i < RM_COUNTOF(sips); i++) {
        start(&p, sips[i], i % 2 == 0 ? 1 : 60000, 0);
        give(&p, 0, N_RECORDS);
        assert_true(drain_stop(&p.drain));
        assert_int_equal(p.next[0] + p.next[1], 2 * N_RECORDS + 1);
        assert_int_equal(atomic_load(&p.drain.rows_written), N_RECORDS);
        assert_true(p.n_groups >= N_RECORDS / DRAIN_GROUP && p.n_batches > 1);
    }
}

static void a_refused_batch_comes_again(void **state)
{
    static struct place p;
    start(&p, 8, 1, 3);
    give(&p, 0, N_RECORDS);
    assert_true(drain_stop(&p.drain));
    assert_int_equal(p.refusals, 0);
    assert_int_equal(p.next[0] + p.next[1], 2 * N_RECORDS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_once_and_in_order),
        cmocka_unit_test(a_refused_batch_comes_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
