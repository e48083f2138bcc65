/* What outlives a stop, written and read back, whole and damaged. */
#include "unit.h"

#include "base/log.h"
#include "base/mem.h"
#include "serve/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define S UINT64_C(1000000)
#define NOW (7200 * S)
#define WALL INT64_C(1796000000000)

static const struct auto_conf conf = {AUTO_P99, 300, 30000, 15000, 200, false};
static const struct breaker_conf breaker = {.failures = 5,
                                            .ratio_permille = 500,
                                            .ratio_min = 10,
                                            .window_ms = 30000,
                                            .cooldown_ms = 60000,
                                            .cooldown_max_ms = 60000};

static struct kept life(uint64_t now_us, int64_t wall_ms)
{
    uint16_t id;
    struct kept k = {.registry = registry_new(),
                     .latency = latency_new(2),
                     .ratios = ratio_book_new(2),
                     .now_us = now_us,
                     .wall_ms = wall_ms};
    assert_int_equal(registry_intern_target(k.registry, "p", "h:1", "m", &id), ERR_OK);
    assert_int_equal(registry_intern_credential(k.registry, "p", 1, &id), ERR_OK);
    return k;
}

static void end(struct kept *k)
{
    latency_free(k->latency);
    ratio_book_free(k->ratios);
    registry_free(k->registry);
}

/* A target that has answered 400 times and then failed five times in a row. */
static void live(struct kept *k)
{
    struct rng rng = {1};
    struct trial none = {0};
    for (int i = 0; i < 400; i++) {
        struct latency_grant g;
        latency_grant(latency_core(k->latency, 1), (struct latency_key){0}, &conf, false, 0, NOW, &g);
        (void)latency_answered(&conf, &g, 1000000, -1, 0, NOW);
    }
    for (int i = 0; i < 5; i++)
        registry_bad(k->registry, 0, NOW, false, &breaker, &rng, &none);
    for (int i = 0; i < 40; i++)
        ratio_learn(ratio_core(k->ratios, i % 2), 0, &(struct ratio_sample){.bytes = {0, 300}, .tokens = {-1, 100}});
}

static uint64_t budget(const struct kept *k, uint64_t now_us)
{
    struct latency_grant g;
    latency_grant(latency_core(k->latency, 0), (struct latency_key){0}, &conf, false, 0, now_us, &g);
    return g.base_us;
}

static void test_round_trip(void **state)
{
    struct kept was = life(NOW, WALL), is = life(50 * S, WALL + 10000);
    struct buf text = {0};
    live(&was);
    keep_text(&was, &text);
    assert_int_equal(keep_take(&is, buf_bytes(&text)), ERR_OK);
    uint64_t left_was = registry_until(was.registry, 0, 0, NOW) - NOW;
    uint64_t left_is = registry_until(is.registry, 0, 0, 50 * S) - 50 * S;
    assert_int_equal(left_is, left_was - 10 * S); /* ten seconds of it went by while we were away */
    assert_in_range(budget(&is, 51 * S), 980000, 1030000);
    assert_int_equal(ratio_tokens(ratio_core(is.ratios, 1), 0, RATIO_OUTPUT, 300), 100);
    buf_fini(&text);
    end(&was);
    end(&is);
}

static void test_a_wall_clock_that_went_back(void **state)
{
    struct kept was = life(NOW, WALL), is = life(50 * S, WALL - 3600000);
    struct buf text = {0};
    live(&was);
    keep_text(&was, &text);
    assert_int_equal(keep_take(&is, buf_bytes(&text)), ERR_OK);
    assert_int_equal(registry_until(is.registry, 0, 0, 50 * S) - 50 * S, registry_until(was.registry, 0, 0, NOW) - NOW);
    buf_fini(&text);
    end(&was);
    end(&is);
}

static void expect_refused(struct bytes text)
{
    struct kept k = life(50 * S, WALL);
    struct latency_report told;
    assert_int_equal(keep_take(&k, text), ERR_SYNTAX);
    assert_int_equal(registry_state(k.registry, 0, 50 * S), HEALTH_CLOSED);
    assert_false(latency_report(k.latency, (struct latency_key){0}, &conf, 50 * S, &told));
    assert_int_equal(ratio_tokens(ratio_core(k.ratios, 0), 0, RATIO_OUTPUT, 300), 75);
    end(&k);
}

static void test_damage(void **state)
{
    struct kept was = life(NOW, WALL);
    struct buf text = {0};
    live(&was);
    keep_text(&was, &text);
    for (size_t i = 0; i < text.n; i++) {
        text.p[i] ^= 1;
        expect_refused(buf_bytes(&text));
        text.p[i] ^= 1;
        expect_refused(bytes_slice(buf_bytes(&text), 0, i));
    }
    buf_putc(&text, '\n');
    expect_refused(buf_bytes(&text));
    expect_refused(BYTES("end 0000000000000000\n"));
    buf_fini(&text);
    end(&was);
}

/* ---- prompts that providers hold ---- */

static void give_caches(struct kept *k, struct cache_memory *two[2])
{
    two[0] = cache_memory_new();
    two[1] = cache_memory_new();
    k->caches = two;
    k->n_caches = 2;
}

static void free_caches(struct cache_memory *two[2])
{
    cache_memory_free(two[0]);
    cache_memory_free(two[1]);
}

/* What each core saw is known to all of them in the next life, as long as a provider's cache would hold it. */
static void test_prefixes(void **state)
{
    struct kept was = life(NOW, WALL), is = life(5000 * S, WALL + 60000);
    struct cache_memory *before[2], *after[2];
    struct buf text = {0};
    give_caches(&was, before);
    give_caches(&is, after);
    for (int i = 0; i < 4; i++)
        prefixes_see(before[0]->prefixes, 7, 3600 * S, NOW - (uint64_t)(100 - 20 * i) * S);
    struct prefix *x = prefixes_find(before[0]->prefixes, 7);
    x->n_output = 250;
    prefix_warm(x, 0, 4096, NOW + 200 * S);
    prefixes_see(before[1]->prefixes, 7, 3600 * S, NOW - 30 * S); /* the same conversation, at another core */
    prefixes_see(before[1]->prefixes, UINT64_MAX, 300 * S, NOW - 10 * S);
    prefix_warm(prefixes_find(before[1]->prefixes, UINT64_MAX), 0, 512, NOW + 50 * S); /* over before the next life */
    prefixes_see(before[1]->prefixes, 9, 300 * S, NOW - 3590 * S);                     /* too long ago by then */
    keep_text(&was, &text);
    assert_int_equal(keep_take(&is, buf_bytes(&text)), ERR_OK);
    for (int i = 0; i < 2; i++) {
        const struct prefix *y = prefixes_find(after[i]->prefixes, 7);
        assert_non_null(y);
        assert_int_equal(y->last_us, 5000 * S - 90 * S); /* the later one of the two cores, a minute ago more */
        assert_int_equal(y->n, 4);
        assert_int_equal((int64_t)y->gap_us, 20 * S);
        assert_int_equal(prefix_warmth(y, 0, 5000 * S + 139 * S), 4096);
        assert_int_equal(prefix_warmth(y, 0, 5000 * S + 140 * S), 0);
        y = prefixes_find(after[i]->prefixes, UINT64_MAX);
        assert_non_null(y);
        assert_int_equal(prefix_warmth(y, 0, 5000 * S), 0);
        assert_null(prefixes_find(after[i]->prefixes, 9));
    }
    buf_fini(&text);
    free_caches(before);
    free_caches(after);
    end(&was);
    end(&is);
}

/* While the cores run their tables are their own. */
static void test_no_prefixes_of_running_cores(void **state)
{
    struct kept k = life(NOW, WALL);
    struct cache_memory *two[2];
    struct buf text = {0};
    give_caches(&k, two);
    prefixes_see(two[0]->prefixes, 7, 300 * S, NOW);
    k.n_caches = 0;
    keep_text(&k, &text);
    assert_null(strstr(buf_cstr(&text), "\nprefix "));
    buf_fini(&text);
    free_caches(two);
    end(&k);
}

static void test_odd_prefix_lines(void **state)
{
    static const char *const odd[] = {"prefix 7 1 1 1 1",
                                      "prefix 0000000000000000 1 1 1 1",
                                      "prefix 000000000000000G 1 1 1 1",
                                      "prefix 0000000000000007 1 1 0 1",
                                      "prefix 0000000000000007 1 1 1",
                                      "prefix 0000000000000007 1 1 1 1 1",
                                      "prefix 0000000000000007 -1 1 1 1",
                                      "prefix 0000000000000007 3600000001 1 1 1",
                                      "prefix 0000000000000007 1 1 1048577 1",
                                      "warm 0000000000000007 0 1 p h:1 m",
                                      "warm 0000000000000007 1 1 p",
                                      "warm 0000000000000007 1 3600000001 p h:1 m",
                                      "warmth 0000000000000007 1 1 p h:1 m"};
    struct kept k = life(NOW, WALL);
    struct cache_memory *two[2];
    give_caches(&k, two);
    for (size_t i = 0; i < RM_COUNTOF(odd); i++)
        assert_int_equal(prefixes_read_line(two[0]->prefixes, k.registry, bytes_of(odd[i]), 0, NOW), ERR_SYNTAX);
    assert_null(prefixes_find(two[0]->prefixes, 7));
    /* One that nobody has a prefix for is passed over; and one from before the machine's clock began. */
    assert_int_equal(
        prefixes_read_line(two[0]->prefixes, k.registry, BYTES("warm 0000000000000007 1 1 p h:1 m"), 0, NOW), ERR_OK);
    assert_int_equal(prefixes_read_line(two[0]->prefixes, k.registry, BYTES("prefix 0000000000000007 5 1 1 1"), 0, 5),
                     ERR_OK);
    assert_null(prefixes_find(two[0]->prefixes, 7));
    free_caches(two);
    end(&k);
}

/* ---- the file ---- */

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static void test_the_file(void **state)
{
    char folder[] = "/tmp/rm-keep-XXXXXX", ledger[64], path[80], aside[96];
    assert_non_null(mkdtemp(folder));
    snprintf(ledger, sizeof ledger, "%s/l.db", folder);
    snprintf(path, sizeof path, "%s.state", ledger);
    snprintf(aside, sizeof aside, "%s.damaged", path);
    struct kept was = life(NOW, WALL), is = life(50 * S, WALL), other = life(50 * S, WALL);
    keep_load(&is, ledger); /* there is none: no word about it */
    assert_int_not_equal(access(aside, F_OK), 0);
    live(&was);
    assert_true(keep_save(&was, ledger));
    keep_load(&is, ledger);
    assert_in_range(budget(&is, 51 * S), 980000, 1030000);
    put_file(path, "ringmain-state 1 0\nnonsense\n");
    keep_load(&other, ledger);
    assert_int_equal(budget(&other, 51 * S), 15000000);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(access(aside, F_OK), 0);
    assert_false(keep_save(&was, "/nowhere/at/all/l.db"));
    assert_true(keep_save(&was, "")); /* no ledger, no file */
    remove(aside);
    remove(folder);
    end(&was);
    end(&is);
    end(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_a_wall_clock_that_went_back),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_no_prefixes_of_running_cores),
        cmocka_unit_test(test_odd_prefix_lines),
        cmocka_unit_test(test_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
