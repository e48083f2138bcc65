/* A cell is a core's sums for one target and side:
 *
 *     samples n | bytes | tokens        the ratio is bytes / tokens: of the whole, so that long calls weigh most
 *     error | judged                    sum of |estimate - report|, and of the reports it was held against
 *
 * Each call is estimated with what was known before it, then learned from: the error is of calls not seen. What was
 * judged while the fallback was in force is dropped once the ratio is known.
 *
 * Integers throughout: a call's bytes and tokens are below 2^40, its error below 2^43, a cell holds 2^11 calls, and
 * there are 2^8 cores, so that sums stay below 2^62. The writer changes its cell inside an odd `turn`, so that nobody
 * takes the bytes of one moment with the tokens of a later one; a reader that meets a change looks again, and leaves
 * the cell out if that does not end. For its own estimates a core adds all cores up once in VIEW_EVERY calls, or always
 * while nothing is known. */
#include "plan/ratio.h"

#include "base/mem.h"

enum { CORES_MAX = 256, VIEW_EVERY = 16, LOOKS_MAX = 1000, LEAST = 8, MOST = 64, LINE_SIDE = 5 };
#define CALL_MAX (UINT64_C(1) << 40)
#define SUM_MAX (UINT64_C(1) << 62)

struct sums {
    uint64_t n, bytes, tokens, error, judged;
};

struct side {
    _Atomic uint64_t n, bytes, tokens, error, judged;
    struct sums view; /* the writer's: all cores' */
    bool is_judged;   /* the error is that of a known ratio */
};

struct cell {
    _Atomic uint32_t turn; /* odd while it is being changed */
    struct side sides[RATIO_N_SIDES];
    _Atomic uint64_t n_whole, whole_tokens;
};

struct ratio_core {
    struct ratio_book *book;
    unsigned core;
    _Atomic(struct cell *) cells[REGISTRY_TARGETS_MAX];
};

struct ratio_book {
    unsigned n_cores;
    struct ratio_core *cores;
};

struct ratio_book *ratio_book_new(unsigned n_cores)
{
    RM_ASSERT(n_cores > 0 && n_cores <= CORES_MAX);
    struct ratio_book *b = mem_zalloc(sizeof *b);
    b->n_cores = n_cores;
    b->cores = mem_zalloc_lines(n_cores * sizeof *b->cores);
    for (unsigned i = 0; i < n_cores; i++) {
        b->cores[i].book = b;
        b->cores[i].core = i;
    }
    return b;
}

void ratio_book_free(struct ratio_book *b)
{
    if (b == NULL)
        return;
    for (unsigned i = 0; i < b->n_cores; i++)
        for (size_t t = 0; t < REGISTRY_TARGETS_MAX; t++)
            mem_free(atomic_load(&b->cores[i].cells[t]));
    mem_free(b->cores);
    mem_free(b);
}

struct ratio_core *ratio_core(struct ratio_book *b, unsigned core)
{
    RM_ASSERT(core < b->n_cores);
    return &b->cores[core];
}

/* ---- cells ---- */

static uint64_t get(const _Atomic uint64_t *v)
{
    return atomic_load_explicit(v, memory_order_acquire); /* a reader's last look at `turn` stays the last */
}

static void set(_Atomic uint64_t *v, uint64_t to)
{
    atomic_store_explicit(v, to, memory_order_release); /* who sees it sees the turn that it belongs to */
}

static struct cell *find_cell(const struct ratio_core *c, uint16_t target_id)
{
    RM_ASSERT(target_id < REGISTRY_TARGETS_MAX);
    return atomic_load_explicit(&c->cells[target_id], memory_order_acquire);
}

static struct cell *own_cell(struct ratio_core *c, uint16_t target_id)
{
    struct cell *cell = find_cell(c, target_id);
    if (cell == NULL) {
        cell = mem_zalloc_lines(sizeof *cell);
        atomic_store_explicit(&c->cells[target_id], cell, memory_order_release);
    }
    return cell;
}

/* A change of the writer's: its stores come between, each a release, so none is seen before the odd turn. */
static void begin_change(struct cell *cell)
{
    uint32_t turn = atomic_load_explicit(&cell->turn, memory_order_relaxed);
    atomic_store_explicit(&cell->turn, turn + 1, memory_order_relaxed);
}

static void end_change(struct cell *cell)
{
    uint32_t turn = atomic_load_explicit(&cell->turn, memory_order_relaxed);
    atomic_store_explicit(&cell->turn, turn + 1, memory_order_release);
}

static void halve(_Atomic uint64_t *v)
{
    set(v, get(v) / 2);
}

/* As often as it takes until less than RATIO_SAMPLES_MAX are left; v[0] is the number of samples. */
static void fade(_Atomic uint64_t *const *v, size_t n)
{
    while (get(v[0]) >= RATIO_SAMPLES_MAX)
        for (size_t i = 0; i < n; i++)
            halve(v[i]);
}

static void fade_side(struct side *s)
{
    fade((_Atomic uint64_t *const[]){&s->n, &s->bytes, &s->tokens, &s->error, &s->judged}, LINE_SIDE);
}

static void fade_whole(struct cell *cell)
{
    if (get(&cell->n_whole) < RATIO_SAMPLES_MAX)
        return;
    fade((_Atomic uint64_t *const[]){&cell->n_whole, &cell->whole_tokens}, 2);
}

static bool is_turned(const struct cell *cell, uint32_t turn)
{
    return (turn & 1) != 0 || atomic_load_explicit(&cell->turn, memory_order_relaxed) != turn;
}

/* False when the cell was being changed. */
static bool look_at_side(const struct cell *cell, enum ratio_side side, struct sums *out)
{
    const struct side *s = &cell->sides[side];
    uint32_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
    *out = (struct sums){get(&s->n), get(&s->bytes), get(&s->tokens), get(&s->error), get(&s->judged)};
    return !is_turned(cell, turn);
}

/* A change is a few stores: it is waited for, though not for ever. */
static bool read_side(const struct cell *cell, enum ratio_side side, struct sums *out)
{
    bool ok = false;
    for (int i = 0; i < LOOKS_MAX && !ok; i++)
        ok = look_at_side(cell, side, out);
    return ok;
}

static struct sums add_up(const struct ratio_book *b, uint16_t target_id, enum ratio_side side)
{
    struct sums all = {0}, one;
    for (unsigned i = 0; i < b->n_cores; i++) {
        const struct cell *cell = find_cell(&b->cores[i], target_id);
        if (cell == NULL || !read_side(cell, side, &one))
            continue;
        all.n += one.n;
        all.bytes += one.bytes;
        all.tokens += one.tokens;
        all.error += one.error;
        all.judged += one.judged;
    }
    return all;
}

static bool read_whole_answers(const struct cell *cell, uint64_t *n, uint64_t *tokens)
{
    for (int i = 0; i < LOOKS_MAX; i++) {
        uint32_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        *n = get(&cell->n_whole);
        *tokens = get(&cell->whole_tokens);
        if (!is_turned(cell, turn))
            return true;
    }
    return false;
}

/* Whole answers and their tokens, of all cores. */
static void add_up_whole(const struct ratio_book *b, uint16_t target_id, uint64_t *n, uint64_t *tokens)
{
    uint64_t more, more_tokens;
    *n = *tokens = 0;
    for (unsigned i = 0; i < b->n_cores; i++) {
        const struct cell *cell = find_cell(&b->cores[i], target_id);
        if (cell == NULL || !read_whole_answers(cell, &more, &more_tokens))
            continue;
        *n += more;
        *tokens += more_tokens;
    }
}

/* ---- estimates ---- */

static bool is_known(const struct sums *s)
{
    return s->n >= RATIO_SAMPLES_MIN && s->bytes > 0 && s->tokens > 0;
}

static int64_t tokens_by_fallback(uint64_t bytes)
{
    return (int64_t)(bytes / RATIO_FALLBACK + (bytes % RATIO_FALLBACK != 0));
}

static inline int64_t tokens_by(const struct sums *s, uint64_t bytes)
{
    uint64_t product;
    if (!__builtin_mul_overflow(bytes, s->tokens, &product) && product < INT64_MAX) /* as good as always */
        return (int64_t)(product / s->bytes + (product % s->bytes != 0));
    unsigned __int128 n = ((unsigned __int128)bytes * s->tokens + s->bytes - 1) / s->bytes;
    return n < INT64_MAX ? (int64_t)n : INT64_MAX;
}

int64_t ratio_tokens(const struct ratio_core *c, uint16_t target_id, enum ratio_side side, uint64_t bytes)
{
    struct sums all = {0};
    if (c != NULL)
        all = add_up(c->book, target_id, side);
    return is_known(&all) ? tokens_by(&all, bytes) : tokens_by_fallback(bytes);
}

int64_t ratio_mean_output(const struct ratio_core *c, uint16_t target_id)
{
    uint64_t n = 0, tokens = 0;
    if (c != NULL)
        add_up_whole(c->book, target_id, &n, &tokens);
    return n >= RATIO_SAMPLES_MIN ? (int64_t)((tokens + n / 2) / n) : 0;
}

/* ---- learning ---- */

static bool fits(uint64_t bytes, int64_t tokens)
{
    uint64_t n = (uint64_t)tokens;
    return bytes > 0 && tokens > 0 && bytes < CALL_MAX && n < CALL_MAX && bytes * LEAST >= n && bytes <= n * MOST;
}

/* What the estimate in force makes of this call, against what was told. */
static inline void judge(struct side *s, bool is_sure, uint64_t bytes, uint64_t tokens)
{
    if (is_sure && !s->is_judged) {
        s->is_judged = true;
        set(&s->error, 0);
        set(&s->judged, 0);
    }
    uint64_t estimate = (uint64_t)(is_sure ? tokens_by(&s->view, bytes) : tokens_by_fallback(bytes));
    set(&s->error, get(&s->error) + (estimate > tokens ? estimate - tokens : tokens - estimate));
    set(&s->judged, get(&s->judged) + tokens);
}

/* True when it tells a ratio. Not while the cell is being changed: the sums would wait for it. */
static inline bool renew_view(struct ratio_core *c, uint16_t target_id, struct side *s, enum ratio_side side)
{
    bool is_sure = is_known(&s->view);
    if (is_sure && get(&s->n) % VIEW_EVERY != 0)
        return true;
    s->view = add_up(c->book, target_id, side);
    return is_known(&s->view);
}

static inline void enter(struct side *s, bool is_sure, uint64_t bytes, uint64_t tokens)
{
    judge(s, is_sure, bytes, tokens);
    set(&s->bytes, get(&s->bytes) + bytes);
    set(&s->tokens, get(&s->tokens) + tokens);
    set(&s->n, get(&s->n) + 1);
    if (get(&s->n) >= RATIO_SAMPLES_MAX)
        fade_side(s);
}

static void enter_whole(struct cell *cell, int64_t tokens)
{
    if (tokens < 0 || (uint64_t)tokens >= CALL_MAX)
        return;
    set(&cell->whole_tokens, get(&cell->whole_tokens) + (uint64_t)tokens);
    set(&cell->n_whole, get(&cell->n_whole) + 1);
    fade_whole(cell);
}

void ratio_learn(struct ratio_core *c, uint16_t target_id, const struct ratio_sample *sample)
{
    struct cell *cell = own_cell(c, target_id);
    bool is_one[RATIO_N_SIDES], is_sure[RATIO_N_SIDES] = {0};
    for (unsigned i = 0; i < RATIO_N_SIDES; i++) {
        is_one[i] = fits(sample->bytes[i], sample->tokens[i]);
        if (is_one[i])
            is_sure[i] = renew_view(c, target_id, &cell->sides[i], (enum ratio_side)i);
    }
    begin_change(cell);
    for (unsigned i = 0; i < RATIO_N_SIDES; i++)
        if (is_one[i])
            enter(&cell->sides[i], is_sure[i], sample->bytes[i], (uint64_t)sample->tokens[i]);
    if (sample->is_whole)
        enter_whole(cell, sample->tokens[RATIO_OUTPUT]);
    end_change(cell);
}

/* ---- for people ---- */

static struct ratio_report report_of(const struct sums *s)
{
    struct ratio_report r = {.n_samples = s->n, .is_known = is_known(s), .error_permille = -1};
    r.milli_bytes = RATIO_FALLBACK * 1000;
    if (r.is_known)
        r.milli_bytes = (uint64_t)(((unsigned __int128)s->bytes * 1000 + s->tokens / 2) / s->tokens);
    if (s->judged > 0)
        r.error_permille = (int64_t)(((unsigned __int128)s->error * 1000 + s->judged / 2) / s->judged);
    return r;
}

bool ratio_report(const struct ratio_book *b, uint16_t target_id, enum ratio_side side, struct ratio_report *out)
{
    struct sums all = add_up(b, target_id, side);
    *out = report_of(&all);
    return all.n > 0;
}

/* ---- written out and read back ---- */

static void write_side(struct buf *out, const struct sums *s)
{
    const uint64_t v[LINE_SIDE] = {s->n, s->bytes, s->tokens, s->error, s->judged};
    for (size_t i = 0; i < LINE_SIDE; i++) {
        buf_put_u64(out, v[i]);
        buf_putc(out, ' ');
    }
}

static void write_target(const struct ratio_book *b, const struct registry *r, uint16_t target_id, struct buf *out)
{
    struct sums prompt = add_up(b, target_id, RATIO_PROMPT), output = add_up(b, target_id, RATIO_OUTPUT);
    uint64_t n, tokens;
    add_up_whole(b, target_id, &n, &tokens);
    if (prompt.n + output.n + n == 0)
        return;
    buf_puts(out, "ratio ");
    write_side(out, &prompt);
    write_side(out, &output);
    buf_printf(out, "%llu %llu %s\n", (unsigned long long)n, (unsigned long long)tokens,
               registry_target_name(r, target_id));
}

void ratio_write(const struct ratio_book *b, const struct registry *r, struct buf *out)
{
    for (unsigned t = 0; t < REGISTRY_TARGETS_MAX; t++)
        write_target(b, r, (uint16_t)t, out);
}

static bool read_number(struct bytes *line, uint64_t *out)
{
    return bytes_to_u64(bytes_cut(line, ' '), out) && *out < SUM_MAX;
}

/* A side is empty, or its ratio is one that could have been learned. */
static bool read_sums(struct bytes *line, struct sums *s)
{
    if (!read_number(line, &s->n) || !read_number(line, &s->bytes) || !read_number(line, &s->tokens) ||
        !read_number(line, &s->error) || !read_number(line, &s->judged))
        return false;
    if (s->n == 0)
        return true;
    return s->n <= (uint64_t)RATIO_SAMPLES_MAX * CORES_MAX && s->bytes > 0 && s->tokens > 0 &&
           s->bytes / MOST <= s->tokens && s->tokens / LEAST <= s->bytes;
}

struct line {
    struct sums sides[RATIO_N_SIDES];
    uint64_t n_whole, whole_tokens;
    struct bytes name;
};

static bool read_line(struct bytes text, struct line *out)
{
    if (!bytes_is(bytes_cut(&text, ' '), "ratio") || !read_sums(&text, &out->sides[RATIO_PROMPT]) ||
        !read_sums(&text, &out->sides[RATIO_OUTPUT]) || !read_number(&text, &out->n_whole) ||
        !read_number(&text, &out->whole_tokens))
        return false;
    out->name = text;
    return true;
}

bool ratio_line_report(struct bytes line, enum ratio_side side, struct bytes *name, struct ratio_report *out)
{
    struct line l;
    if (!read_line(line, &l))
        return false;
    *name = l.name;
    *out = report_of(&l.sides[side]);
    return true;
}

static void load_side(struct side *s, const struct sums *from)
{
    set(&s->n, from->n);
    set(&s->bytes, from->n > 0 ? from->bytes : 0);
    set(&s->tokens, from->n > 0 ? from->tokens : 0);
    set(&s->error, from->error);
    set(&s->judged, from->judged);
    s->is_judged = is_known(from);
}

enum err ratio_read_line(struct ratio_book *b, struct registry *r, struct bytes line)
{
    struct line l;
    uint16_t id;
    if (!read_line(line, &l))
        return ERR_SYNTAX;
    enum err e = registry_intern_name(r, l.name, &id);
    if (e != ERR_OK)
        return e;
    struct cell *cell = own_cell(&b->cores[0], id);
    for (unsigned i = 0; i < RATIO_N_SIDES; i++) {
        load_side(&cell->sides[i], &l.sides[i]);
        fade_side(&cell->sides[i]);
    }
    set(&cell->n_whole, l.n_whole);
    set(&cell->whole_tokens, l.n_whole > 0 ? l.whole_tokens : 0);
    fade_whole(cell);
    return ERR_OK;
}
