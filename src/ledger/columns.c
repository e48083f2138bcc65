#include "ledger/columns.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>

/* ---- binding ----
 * A binding that SQLite does costs some 90 instructions, one that is left out ten. */

void bindings_init(struct bindings *b)
{
    b->n = sqlite3_bind_parameter_count(b->s);
    b->at = mem_zalloc(((size_t)b->n + 1) * sizeof *b->at);
}

void bindings_clear(struct bindings *b)
{
    if (b->s == NULL)
        return;
    sqlite3_clear_bindings(b->s);
    memset(b->at, 0, ((size_t)b->n + 1) * sizeof *b->at);
}

void bindings_fini(struct bindings *b)
{
    sqlite3_finalize(b->s);
    mem_free(b->at);
    *b = (struct bindings){0};
}

struct binder {
    struct bindings *to;
    int at;
    intern_fn *intern;
    void *arg;
};

static __attribute__((noinline)) void bind_int(struct bindings *b, int at, int64_t v)
{
    sqlite3_bind_int64(b->s, at, v);
    b->at[at] = (struct binding){BOUND_INT, v, NULL};
}

static __attribute__((noinline)) void bind_null(struct bindings *b, int at)
{
    sqlite3_bind_null(b->s, at);
    b->at[at] = (struct binding){0};
}

/* For a parameter that holds no name. Inlined into each list of columns: most find that nothing is to be done. */
static inline __attribute__((always_inline)) void put_int(struct binder *b, int64_t v)
{
    const struct binding *is = &b->to->at[b->at++];
    if (is->kind != BOUND_INT || is->v != v)
        bind_int(b->to, b->at - 1, v);
}

static inline __attribute__((always_inline)) void put_null(struct binder *b)
{
    if (b->to->at[b->at++].kind != BOUND_NULL)
        bind_null(b->to, b->at - 1);
}

static inline __attribute__((always_inline)) void put_known(struct binder *b, int64_t v, bool is_there)
{
    if (is_there)
        put_int(b, v);
    else
        put_null(b);
}

static inline __attribute__((always_inline)) void put_count(struct binder *b, int64_t v)
{
    put_known(b, v, v >= 0);
}

static void put_text(struct binder *b, const char *t)
{
    if (t == NULL || *t == '\0') {
        put_null(b);
        return;
    }
    b->to->at[b->at].kind = BOUND_TEXT; /* another place in memory each time */
    sqlite3_bind_text(b->to->s, b->at++, t, -1, SQLITE_STATIC);
}

static void put_name(struct binder *b, const char *t)
{
    if (t == NULL || *t == '\0') {
        put_null(b);
        return;
    }
    struct binding *is = &b->to->at[b->at];
    if (is->name != NULL && strcmp(is->name, t) == 0) {
        b->at++;
        return;
    }
    const struct name *n = b->intern(t, b->arg);
    if (n != NULL)
        put_int(b, n->id);
    else
        put_text(b, t);
    is->name = n != NULL ? n->text : NULL;
}

void columns_bind_int(struct bindings *b, int at, int64_t v)
{
    RM_ASSERT(at <= b->n);
    put_int(&(struct binder){b, at, NULL, NULL}, v);
}

void columns_bind_null(struct bindings *b, int at, int n)
{
    struct binder to = {b, at, NULL, NULL};
    RM_ASSERT(at + n - 1 <= b->n);
    while (to.at < at + n)
        put_null(&to);
}

void columns_bind_request(struct bindings *to, int at, const struct request_record *r, intern_fn *intern, void *arg)
{
    struct binder b = {to, at, intern, arg};
    RM_ASSERT(at + REQUEST_N_COLUMNS - 1 <= to->n);
    put_int(&b, r->started_wall_ms);
    put_name(&b, r->key);
    put_name(&b, r->route);
    put_name(&b, r->dialect);
    put_int(&b, r->is_stream);
    put_known(&b, r->status, r->status != 0);
    put_name(&b, outcome_word(r->outcome));
    put_name(&b, r->provider);
    put_name(&b, r->model);
    put_count(&b, r->served_link);
    put_count(&b, r->ttft_us);
    put_count(&b, r->total_us);
    put_count(&b, r->gateway_us);
    put_count(&b, r->prompt_bytes);
    put_count(&b, r->max_tokens);
    put_name(&b, r->effort);
    put_known(&b, (int64_t)r->prefix_hash, r->prefix_hash != 0);
    put_known(&b, r->cost_nusd, r->cost_nusd != NUSD_UNKNOWN);
    put_known(&b, r->waste_nusd, r->waste_nusd != NUSD_UNKNOWN);
    put_text(&b, r->adjusted);
    put_text(&b, r->trace_id);
    put_int(&b, r->n_attempts);
    put_int(&b, r->n_started);
    RM_ASSERT(b.at == at + REQUEST_N_COLUMNS);
}

void columns_bind_prompt(struct bindings *to, int at, const struct prompt_record *p)
{
    struct binder b = {to, at, NULL, NULL};
    RM_ASSERT(at + PROMPT_N_COLUMNS - 1 <= to->n);
    put_known(&b, (int64_t)p->talk_hash, p->talk_hash != 0);
    put_known(&b, (int64_t)p->head_hash, p->head_hash != 0);
    put_known(&b, (int64_t)p->cache_hash, p->cache_hash != 0);
    put_known(&b, p->head_bytes, p->head_bytes > 0);
    put_known(&b, p->cache_bytes, p->cache_bytes > 0);
    put_known(&b, p->cache_ttl_s, p->cache_ttl_s > 0);
    put_known(&b, (int64_t)p->affinity_key, p->affinity_key != 0);
    put_known(&b, p->needs, p->is_known);
    put_text(&b, p->routing);
    RM_ASSERT(b.at == at + PROMPT_N_COLUMNS);
}

static void bind_tokens(struct binder *b, const struct usage *u)
{
    put_count(b, u->input);
    put_count(b, u->cache_read);
    put_count(b, u->cache_write_5m);
    put_count(b, u->cache_write_1h);
    put_count(b, u->output);
    put_count(b, u->reasoning);
}

static int64_t flags_of(const struct attempt_record *a)
{
    return (a->in_stream ? ATTEMPT_FLAG_IN_STREAM : 0) | (a->is_started ? ATTEMPT_FLAG_STARTED : 0) |
           (a->is_served ? ATTEMPT_FLAG_SERVED : 0) | (a->is_service_told ? ATTEMPT_FLAG_SERVICE_TOLD : 0) |
           (a->is_price_standin ? ATTEMPT_FLAG_STANDIN : 0) |
           (a->cache_mark == CACHE_ASKED ? ATTEMPT_FLAG_CACHE_ASKED : 0) |
           (a->cache_mark == CACHE_WITHHELD ? ATTEMPT_FLAG_CACHE_WITHHELD : 0);
}

void columns_bind_attempt(struct bindings *to, int at, const struct attempt_record *a, intern_fn *intern, void *arg)
{
    struct binder b = {to, at, intern, arg};
    RM_ASSERT(at + ATTEMPT_N_COLUMNS - 1 <= to->n);
    put_int(&b, a->n);
    put_int(&b, a->kind);
    put_int(&b, a->link);
    put_name(&b, a->provider);
    put_name(&b, a->model);
    put_name(&b, outcome_word(a->outcome));
    put_int(&b, flags_of(a));
    put_known(&b, a->status, a->status != 0);
    put_count(&b, a->start_us);
    put_count(&b, a->connect_us);
    put_count(&b, a->first_byte_us);
    put_count(&b, a->ttft_us);
    put_count(&b, a->total_us);
    bind_tokens(&b, &a->tokens);
    put_int(&b, a->tokens_from);
    put_name(&b, a->price_version);
    put_known(&b, a->cost_nusd, a->cost_nusd != NUSD_UNKNOWN);
    put_known(&b, a->waste_nusd, a->waste_nusd != NUSD_UNKNOWN);
    put_count(&b, a->retry_after_ms);
    put_text(&b, a->provider_request_id);
    put_text(&b, a->decision);
    put_name(&b, a->service);
    RM_ASSERT(b.at == at + ATTEMPT_N_COLUMNS);
}

/* ---- reading ---- */

struct row {
    sqlite3_stmt *s;
    int at;
    struct arena *arena;
    read_name_fn *name;
    void *arg;
};

static int64_t get_int(struct row *r, int64_t none)
{
    int at = r->at++;
    return sqlite3_column_type(r->s, at) == SQLITE_NULL ? none : sqlite3_column_int64(r->s, at);
}

static struct bytes get_text(struct row *r)
{
    int at = r->at++;
    const char *t = (const char *)sqlite3_column_text(r->s, at);
    return bytes_from(t, t != NULL ? (size_t)sqlite3_column_bytes(r->s, at) : 0);
}

static const char *get_name(struct row *r, const char *none)
{
    const char *t = r->name(r->s, r->at++, r->arena, r->arg);
    return t != NULL ? t : none;
}

static enum outcome get_outcome(struct row *r)
{
    enum outcome o;
    return outcome_parse(bytes_of(get_name(r, "")), &o) ? o : OUTCOME_NONE;
}

void columns_read_request(sqlite3_stmt *s, int at, struct arena *arena, read_name_fn *name, void *arg,
                          struct request_record *r)
{
    struct row c = {s, at, arena, name, arg};
    r->started_wall_ms = get_int(&c, 0);
    r->key = get_name(&c, "");
    r->route = get_name(&c, "");
    r->dialect = get_name(&c, "");
    r->is_stream = get_int(&c, 0) != 0;
    r->status = (uint16_t)get_int(&c, 0);
    r->outcome = get_outcome(&c);
    r->provider = get_name(&c, NULL);
    r->model = get_name(&c, NULL);
    r->served_link = (int16_t)get_int(&c, -1);
    r->ttft_us = get_int(&c, -1);
    r->total_us = get_int(&c, -1);
    r->gateway_us = get_int(&c, -1);
    r->prompt_bytes = get_int(&c, -1);
    r->max_tokens = get_int(&c, -1);
    r->effort = get_name(&c, "");
    r->prefix_hash = (uint64_t)get_int(&c, 0);
    r->cost_nusd = get_int(&c, NUSD_UNKNOWN);
    r->waste_nusd = get_int(&c, NUSD_UNKNOWN);
    r->adjusted = arena_dup(arena, get_text(&c)).p;
    r->trace_id = arena_dup(arena, get_text(&c)).p;
    r->n_attempts = (uint16_t)get_int(&c, 0);
    r->n_started = (uint16_t)get_int(&c, 0);
    RM_ASSERT(c.at == at + REQUEST_N_COLUMNS);
}

void columns_read_prompt(sqlite3_stmt *s, int at, struct arena *arena, struct prompt_record *p)
{
    struct row c = {s, at, arena, NULL, NULL};
    p->talk_hash = (uint64_t)get_int(&c, 0);
    p->head_hash = (uint64_t)get_int(&c, 0);
    p->cache_hash = (uint64_t)get_int(&c, 0);
    p->head_bytes = get_int(&c, 0);
    p->cache_bytes = get_int(&c, 0);
    p->cache_ttl_s = get_int(&c, 0);
    p->affinity_key = (uint64_t)get_int(&c, 0);
    int64_t needs = get_int(&c, -1);
    p->is_known = needs >= 0;
    p->needs = p->is_known ? (unsigned)needs : 0;
    p->routing = arena_dup(arena, get_text(&c)).p;
    RM_ASSERT(c.at == at + PROMPT_N_COLUMNS);
}

static void read_tokens(struct row *r, struct usage *u)
{
    u->input = get_int(r, -1);
    u->cache_read = get_int(r, -1);
    u->cache_write_5m = get_int(r, -1);
    u->cache_write_1h = get_int(r, -1);
    u->output = get_int(r, -1);
    u->reasoning = get_int(r, -1);
}

/* A number from the file that becomes an enum: a foreign value must not index past a table of words. */
static int64_t get_enum(struct row *r, int64_t max)
{
    int64_t v = get_int(r, 0);
    return v >= 0 && v <= max ? v : 0;
}

void columns_read_attempt(sqlite3_stmt *s, int at, struct arena *arena, read_name_fn *name, void *arg,
                          struct attempt_record *a)
{
    struct row c = {s, at, arena, name, arg};
    a->n = (uint16_t)get_int(&c, 0);
    a->kind = (enum attempt_kind)get_enum(&c, ATTEMPT_HEDGE);
    a->link = (uint16_t)get_int(&c, 0);
    a->provider = get_name(&c, NULL);
    a->model = get_name(&c, NULL);
    a->outcome = get_outcome(&c);
    int64_t flags = get_int(&c, 0);
    a->in_stream = (flags & ATTEMPT_FLAG_IN_STREAM) != 0;
    a->is_started = (flags & ATTEMPT_FLAG_STARTED) != 0;
    a->is_served = (flags & ATTEMPT_FLAG_SERVED) != 0;
    a->is_service_told = (flags & ATTEMPT_FLAG_SERVICE_TOLD) != 0;
    a->is_price_standin = (flags & ATTEMPT_FLAG_STANDIN) != 0;
    a->cache_mark = (flags & ATTEMPT_FLAG_CACHE_ASKED) != 0      ? CACHE_ASKED
                    : (flags & ATTEMPT_FLAG_CACHE_WITHHELD) != 0 ? CACHE_WITHHELD
                                                                 : CACHE_NOT_ASKED;
    a->status = (uint16_t)get_int(&c, 0);
    a->start_us = get_int(&c, -1);
    a->connect_us = get_int(&c, -1);
    a->first_byte_us = get_int(&c, -1);
    a->ttft_us = get_int(&c, -1);
    a->total_us = get_int(&c, -1);
    read_tokens(&c, &a->tokens);
    a->tokens_from = (enum tokens_from)get_enum(&c, TOKENS_REPORTED);
    a->price_version = get_name(&c, NULL);
    a->cost_nusd = get_int(&c, NUSD_UNKNOWN);
    a->waste_nusd = get_int(&c, NUSD_UNKNOWN);
    a->retry_after_ms = get_int(&c, -1);
    a->provider_request_id = arena_dup(arena, get_text(&c)).p;
    a->decision = arena_dup(arena, get_text(&c)).p;
    snprintf(a->service, sizeof a->service, "%s", get_name(&c, ""));
    RM_ASSERT(c.at == at + ATTEMPT_N_COLUMNS);
}
