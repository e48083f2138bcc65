/* The columns of `request` and `attempt`, in one place: their SQL, and how a record becomes bound values and comes
 * back. "None" is NULL: -1 in a record, an empty text, NUSD_UNKNOWN. */
#ifndef RM_LEDGER_COLUMNS_H
#define RM_LEDGER_COLUMNS_H

#include "base/arena.h"
#include "ledger/names.h"
#include "model/record.h"

#include <sqlite3.h>

#define REQUEST_COLUMNS                                                                                          \
    "started_ms, key, route, dialect, stream, status, outcome, provider, model, served_link, ttft_us, total_us," \
    " gateway_us, prompt_bytes, max_tokens, effort, prefix_hash, cost_nusd, waste_nusd, adjusted, trace_id,"     \
    " n_attempts, n_started"
/* Of an attempt, as of version 1. */
#define SERVED_COLUMNS_1                                                                                   \
    "a_n, a_kind, a_link, a_provider, a_model, a_outcome, a_flags, a_status, a_start_us, a_connect_us,"    \
    " a_first_byte_us, a_ttft_us, a_total_us, a_input, a_cache_read, a_cache_write_5m, a_cache_write_1h,"  \
    " a_output, a_reasoning, a_tokens_from, a_price_version, a_cost_nusd, a_waste_nusd, a_retry_after_ms," \
    " a_provider_request_id, a_decision"
#define ATTEMPT_COLUMNS_1                                                                                   \
    "n, kind, link, provider, model, outcome, flags, status, start_us, connect_us, first_byte_us, ttft_us," \
    " total_us, input, cache_read, cache_write_5m, cache_write_1h, output, reasoning, tokens_from,"         \
    " price_version, cost_nusd, waste_nusd, retry_after_ms, provider_request_id, decision"
/* Since version 4; behind the others, since they came later. */
#define PROMPT_COLUMNS \
    "talk_hash, head_hash, cache_hash, head_bytes, cache_bytes, cache_ttl_s, affinity_key, needs, routing"
enum { PROMPT_N_COLUMNS = 9, REQUEST_N_COLUMNS = 23, ATTEMPT_N_COLUMNS = 27 };
/* Since version 5. OLD: for a file that does not have it yet. */
#define SERVED_COLUMNS SERVED_COLUMNS_1 ", a_service"
#define ATTEMPT_COLUMNS ATTEMPT_COLUMNS_1 ", service"
#define SERVED_COLUMNS_OLD SERVED_COLUMNS_1 ", NULL"
#define ATTEMPT_COLUMNS_OLD ATTEMPT_COLUMNS_1 ", NULL"

/* flags. SERVICE_TOLD: the answer named its class of service; STANDIN: the class is priced at the standard rates. */
enum {
    ATTEMPT_FLAG_IN_STREAM = 1,
    ATTEMPT_FLAG_STARTED = 2,
    ATTEMPT_FLAG_SERVED = 4,
    ATTEMPT_FLAG_CACHE_ASKED = 8,
    ATTEMPT_FLAG_CACHE_WITHHELD = 16,
    ATTEMPT_FLAG_SERVICE_TOLD = 32,
    ATTEMPT_FLAG_STANDIN = 64
};

/* What the parameters of a prepared statement hold: the same again is not bound again, and most of a row is as the one
 * before it. The zero value is right for a fresh statement. Nobody else binds to it. */
struct binding {
    enum { BOUND_NULL, BOUND_INT, BOUND_TEXT } kind;
    int64_t v;        /* of an integer */
    const char *name; /* whose integer it is; NULL = of no name */
};
struct bindings {
    sqlite3_stmt *s;    /* NULL = not prepared yet */
    struct binding *at; /* by parameter, from 1 */
    int n;              /* parameters */
};
/* For b->s, which is freshly prepared. */
void bindings_init(struct bindings *b);
/* All NULL again: when the texts of names are about to go. */
void bindings_clear(struct bindings *b);
/* The statement goes as well. Accepts the zero value. */
void bindings_fini(struct bindings *b);

/* A name as it is interned; NULL = it is not, and goes in as text. `arg` is the caller's. */
typedef const struct name *intern_fn(const char *text, void *arg);
/* Resolves a name column into the arena; NULL column -> NULL. */
typedef const char *read_name_fn(sqlite3_stmt *s, int at, struct arena *arena, void *arg);

/* Parameters from `at` on (1-based) are bound. Texts must outlive the step; names, as interned, the bindings. */
void columns_bind_int(struct bindings *b, int at, int64_t v);
void columns_bind_null(struct bindings *b, int at, int n);
void columns_bind_request(struct bindings *b, int at, const struct request_record *r, intern_fn *intern, void *arg);
void columns_bind_prompt(struct bindings *b, int at, const struct prompt_record *p);
void columns_bind_attempt(struct bindings *b, int at, const struct attempt_record *a, intern_fn *intern, void *arg);
/* Columns from `at` on (0-based) are read. id, prompt and attempts are not touched. */
void columns_read_request(sqlite3_stmt *s, int at, struct arena *arena, read_name_fn *name, void *arg,
                          struct request_record *r);
void columns_read_prompt(sqlite3_stmt *s, int at, struct arena *arena, struct prompt_record *p);
void columns_read_attempt(sqlite3_stmt *s, int at, struct arena *arena, read_name_fn *name, void *arg,
                          struct attempt_record *a);

#endif
