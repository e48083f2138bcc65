/* What the ledger's tests share: a folder of their own, and records with every member set. */
#ifndef RM_TESTS_LEDGER_FIXTURE_H
#define RM_TESTS_LEDGER_FIXTURE_H

#include "ledger/ledger.h"
#include "loop/loop.h"

#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct fixture {
    char dir[64], db[96], log[96];
    struct attempt_record attempts[3];
    struct request_record rec;
};

static inline void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/tmp/ringmain-ledger-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->db, sizeof f->db, "%s/t.db", f->dir);
    snprintf(f->log, sizeof f->log, "%s/access.log", f->dir);
}

static inline void fixture_fini(struct fixture *f)
{
    char path[128];
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", f->db, ends[i]);
        unlink(path);
    }
    unlink(f->log);
    rmdir(f->dir);
}

static inline struct attempt_record attempt_fixture(uint16_t n, enum outcome outcome, bool is_served)
{
    struct attempt_record a = {.n = n,
                               .link = (uint16_t)(n - 1),
                               .outcome = outcome,
                               .is_started = !outcome_is_skip(outcome),
                               .is_served = is_served,
                               .status = is_served ? 200 : 429,
                               .provider = is_served ? "anthropic" : "openai",
                               .model = is_served ? "claude-x" : "gpt-x",
                               .start_us = 100 * n,
                               .connect_us = is_served ? -1 : 1500,
                               .first_byte_us = 2000,
                               .ttft_us = is_served ? 340000 : -1,
                               .total_us = 900000,
                               .tokens = {12, 3, 2, 1, 40, 7},
                               .tokens_from = is_served ? TOKENS_REPORTED : TOKENS_ESTIMATED,
                               .price_version = "2026-11-01",
                               .cost_nusd = 1234567,
                               .waste_nusd = is_served ? 0 : 1234567,
                               .retry_after_ms = is_served ? -1 : 8000};
    static const char *const ids[] = {"preq_0", "preq_1", "preq_2", "preq_3"};
    static char decisions[OUTCOME_N][64];
    a.provider_request_id = ids[n];
    snprintf(decisions[outcome], sizeof decisions[outcome], "next link: %s", outcome_word(outcome));
    a.decision = decisions[outcome];
    return a;
}

/* Three attempts, the second served. */
static inline struct request_record *record_fixture(struct fixture *f, uint64_t id)
{
    f->attempts[0] = attempt_fixture(1, OUTCOME_RATE_LIMITED, false);
    f->attempts[1] = attempt_fixture(2, OUTCOME_OK, true);
    f->attempts[2] = attempt_fixture(3, OUTCOME_SKIPPED_OPEN, false);
    f->rec = (struct request_record){.id = id,
                                     .started_wall_ms = INT64_C(1796022000123),
                                     .key = "team",
                                     .route = "flagship",
                                     .dialect = "openai",
                                     .provider = "anthropic",
                                     .model = "claude-x",
                                     .is_stream = true,
                                     .status = 200,
                                     .outcome = OUTCOME_OK,
                                     .served_link = 1,
                                     .ttft_us = 352000,
                                     .total_us = 1200000,
                                     .gateway_us = 180,
                                     .prompt_bytes = 4000,
                                     .max_tokens = 256,
                                     .effort = "low",
                                     .prefix_hash = UINT64_C(0xfedcba9876543210),
                                     .cost_nusd = 2469134,
                                     .waste_nusd = 1234567,
                                     .adjusted = "max_tokens=256",
                                     .trace_id = "0af7651916cd43dd8448eb211c80319c",
                                     .attempts = f->attempts,
                                     .n_attempts = 3,
                                     .n_started = 2};
    return &f->rec;
}

static inline struct ledger *ledger_fixture(const char *db, const char *log, uint32_t queue_rows)
{
    struct ledger_options o = {.path = db, .access_log = log, .flush_ms = 5, .queue_rows = queue_rows, .n_rings = 1};
    struct ledger *l = NULL;
    char message[256] = "";
    if (ledger_open(&o, &l, message, sizeof message) != ERR_OK)
        fail_msg("ledger_open: %s", message);
    return l;
}

static inline int64_t sql_int(const char *db, const char *sql)
{
    sqlite3 *c = NULL;
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_open(db, &c), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(c, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(c);
    return v;
}

/* Yields until the condition holds; at most 10 s. */
#define WAIT_FOR(cond)                                 \
    do {                                               \
        uint64_t end_us_ = loop_clock_us() + 10000000; \
        while (!(cond) && loop_clock_us() < end_us_)   \
            sched_yield();                             \
        assert_true(cond);                             \
    } while (0)

#endif
