#include "unit.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ledger/names.h"
#include "ledger/ring.h"

#include <pthread.h>
#include <stdio.h>

static void refuses_what_does_not_fit(void **state)
{
    struct ring r;
    ring_init(&r, 0, 3);
    uint64_t cursor = 0;
    struct buf scratch = {0};
    struct bytes out;
    assert_int_equal(ring_put(&r, BYTES("one")), RING_ROOMY);
    assert_int_equal(ring_put(&r, BYTES("")), RING_SHORT);
    assert_int_equal(ring_put(&r, BYTES("three")), RING_SHORT);
    assert_int_equal(ring_put(&r, BYTES("four")), RING_FULL);
    assert_int_equal(r.lost, 1);
    assert_true(ring_is_half_full(&r));
    assert_true(ring_read(&r, &cursor, &scratch, &out));
    assert_true(bytes_is(out, "one"));
    uint64_t again = 0;
    assert_true(ring_read(&r, &again, &scratch, &out)); /* not released: read twice */
    assert_true(bytes_is(out, "one"));
    ring_release(&r, cursor, 1);
    assert_int_equal(ring_n_waiting(&r), 2);
    assert_true(ring_put(&r, BYTES("five")));
    char *big = buf_reserve(&scratch, r.cap);
    memset(big, 'x', r.cap);
    assert_false(ring_put(&r, bytes_from(big, r.cap)));
    buf_fini(&scratch);
    ring_fini(&r);
}

enum { N_RECORDS = 20000 };

static size_t record_of(uint64_t i, char *out)
{
    struct rng rng = {i};
    size_t n = 8 + (size_t)rng_below(&rng, 900);
    memset(out, (int)(i & 0xff), n);
    memcpy(out, &i, sizeof i);
    return n;
}

static void *produce(void *arg)
{
    struct ring *r = arg;
    char record[1024];
    for (uint64_t i = 0; i < N_RECORDS;) {
        size_t n = record_of(i, record);
        if (ring_put(r, bytes_from(record, n)))
            i++;
    }
    return NULL;
}

/* Everything comes out once, whole and in order, over many wraps. */
static void two_threads(void **state)
{
    struct ring r;
    ring_init(&r, 0, 1000000);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, &r), 0);
    struct buf scratch = {0};
    struct bytes got;
    char want[1024];
    uint64_t cursor = 0;
    for (uint64_t i = 0; i < N_RECORDS;) {
        if (!ring_read(&r, &cursor, &scratch, &got))
            continue;
        size_t n = record_of(i, want);
        assert_int_equal(got.n, n);
        assert_memory_equal(got.p, want, n);
        ring_release(&r, cursor, 1);
        i++;
    }
    pthread_join(thread, NULL);
    assert_int_equal(ring_n_waiting(&r), 0);
    buf_fini(&scratch);
    ring_fini(&r);
}

static size_t n_blocks(const struct ring *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->cap / RING_BLOCK_BYTES; i++)
        n += r->blocks[i] != NULL;
    return n;
}

/* What is drained in time lives in two blocks, however much passes through; a backlog is given back when it is over. */
static void memory_follows_the_backlog(void **state)
{
    static const char record[500];
    struct ring r;
    struct buf scratch = {0};
    struct bytes out;
    uint64_t cursor = 0;
    ring_init(&r, 4 << 20, 1000000);
    assert_int_equal(n_blocks(&r), 0);
    for (int i = 0; i < 30000; i++) { /* more than three laps */
        assert_true(ring_put(&r, bytes_from(record, sizeof record)));
        assert_true(ring_read(&r, &cursor, &scratch, &out));
        assert_int_equal(out.n, sizeof record);
        ring_release(&r, cursor, 1);
        assert_true(n_blocks(&r) + (r.spares_in - r.spares_out) <= 2);
    }
    uint64_t n = 0;
    while (ring_put(&r, bytes_from(record, sizeof record)))
        n++;
    assert_true(n * 504 > r.cap - RING_BLOCK_BYTES - 504); /* all of it can be had */
    assert_int_equal(n_blocks(&r), r.cap / RING_BLOCK_BYTES);
    for (uint64_t i = 0; i < n; i++)
        assert_true(ring_read(&r, &cursor, &scratch, &out));
    assert_false(ring_read(&r, &cursor, &scratch, &out));
    ring_release(&r, cursor, n);
    assert_true(n_blocks(&r) <= 1);
    assert_int_equal(r.spares_in - r.spares_out, RING_SPARES);
    buf_fini(&scratch);
    ring_fini(&r);
}

/* One that is as long as several blocks, at every place of a block's end. */
static void long_records_cross_blocks(void **state)
{
    enum { LONG = 3 * RING_BLOCK_BYTES };
    struct ring r;
    struct buf scratch = {0};
    struct bytes out;
    uint64_t cursor = 0;
    char *text = mem_alloc(LONG);
    ring_init(&r, 256 * 1024, 1000);
    for (size_t n = LONG - 40; n < LONG; n++) {
        memset(text, (int)(n % 251), n);
        text[n - 1] = 'e';
        assert_true(ring_put(&r, bytes_from(text, n)));
        assert_true(ring_put(&r, bytes_from(text, n % 7)));
        assert_true(ring_read(&r, &cursor, &scratch, &out));
        assert_int_equal(out.n, n);
        assert_memory_equal(out.p, text, n);
        assert_true(ring_read(&r, &cursor, &scratch, &out));
        assert_int_equal(out.n, n % 7);
        ring_release(&r, cursor, 2);
    }
    mem_free(text);
    buf_fini(&scratch);
    ring_fini(&r);
}

static void names_are_bounded(void **state)
{
    struct names *t = names_new();
    char text[32];
    for (int i = 1; i <= NAMES_MAX + 10; i++) {
        snprintf(text, sizeof text, "name-%d", i);
        assert_int_equal(names_put(t, bytes_of(text), i), i <= NAMES_MAX);
    }
    assert_int_equal(names_find(t, BYTES("name-1"))->id, 1);
    assert_int_equal(names_find(t, BYTES("name-4096"))->id, 4096);
    assert_null(names_find(t, BYTES("name-4097")));
    assert_int_equal(t->last_id, NAMES_MAX + 10);
    names_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_does_not_fit),  cmocka_unit_test(two_threads),
        cmocka_unit_test(memory_follows_the_backlog), cmocka_unit_test(long_records_cross_blocks),
        cmocka_unit_test(names_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
