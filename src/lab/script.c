/* A script is built from the well-formed answer: head, opening, words, finish, terminal event; a fault leaves parts
 * out, puts something between them, or changes the end. */
#include "lab/script.h"

#include "http/body.h"

enum { STEPS_MORE = 10, RST_DELAY_US = 20000, MS = 1000, COMMENTS_BEFORE = 3 };

struct writer {
    const struct shape_request *r;
    struct arena *arena;
    struct script *script;
    struct buf scratch;
};

static void init(struct writer *w, const struct shape_request *r, size_t n_steps, struct arena *arena,
                 struct script *out)
{
    *out = (struct script){.steps = ARENA_ARRAY(arena, struct script_step, n_steps), .end = SCRIPT_KEEP};
    *w = (struct writer){.r = r, .arena = arena, .script = out};
}

/* What stands in the scratch becomes a step. */
static void step(struct writer *w, uint64_t delay_us)
{
    w->script->steps[w->script->n++] = (struct script_step){delay_us, arena_dup(w->arena, buf_bytes(&w->scratch))};
    buf_clear(&w->scratch);
}

/* The scratch as one chunk of the body. */
static void chunk_step(struct writer *w, uint64_t delay_us)
{
    char head[BODY_CHUNK_HEAD_BYTES];
    struct bytes payload = arena_dup(w->arena, buf_bytes(&w->scratch));
    buf_clear(&w->scratch);
    buf_put(&w->scratch, bytes_from(head, body_chunk_head(head, payload.n)));
    buf_put(&w->scratch, payload);
    buf_puts(&w->scratch, "\r\n");
    step(w, delay_us);
}

static void head(struct writer *w, unsigned status, const char *type)
{
    w->script->status = status;
    head_put_status(&w->scratch, status);
    head_put_field(&w->scratch, "Content-Type", bytes_of(type));
    if (w->r != NULL)
        shape_fields(w->r, &w->scratch);
}

static void whole_step(struct writer *w, struct bytes body, uint64_t delay_us)
{
    head_put_field_u64(&w->scratch, "Content-Length", body.n);
    head_put_end(&w->scratch);
    buf_put(&w->scratch, body);
    step(w, delay_us);
}

static void stream_head_step(struct writer *w, const struct fault *f, uint64_t delay_us)
{
    head(w, 200, f->kind == FAULT_WRONG_TYPE ? "text/plain" : "text/event-stream; charset=utf-8");
    head_put_field(&w->scratch, "Cache-Control", BYTES("no-cache"));
    head_put_field(&w->scratch, "Transfer-Encoding", BYTES("chunked"));
    head_put_end(&w->scratch);
    step(w, delay_us);
}

static void last_chunk_step(struct writer *w)
{
    buf_puts(&w->scratch, "0\r\n\r\n");
    step(w, 0);
}

void script_error(const struct shape_request *r, const struct shape_error *e, struct arena *arena, struct script *out)
{
    struct writer w;
    struct buf body = {0};
    init(&w, r, 1, arena, out);
    head(&w, e->status, "application/json");
    if (e->retry_after_ms >= 0)
        head_put_field_u64(&w.scratch, "Retry-After", (uint64_t)(e->retry_after_ms + 999) / 1000);
    if (e->retry_after_ms > 0 && e->retry_after_ms % 1000 != 0) /* the vendors' own header for parts of a second */
        head_put_field_u64(&w.scratch, "Retry-After-Ms", (uint64_t)e->retry_after_ms);
    shape_error_body(r, e, &body);
    whole_step(&w, buf_bytes(&body), 0);
    buf_fini(&body);
    buf_fini(&w.scratch);
}

void script_json(unsigned status, struct bytes json, struct arena *arena, struct script *out)
{
    struct writer w;
    init(&w, NULL, 1, arena, out);
    head(&w, status, "application/json");
    whole_step(&w, json, 0);
    buf_fini(&w.scratch);
}

/* Silence, and then the connection ends; for ever when no time was told. */
static void silence(struct writer *w, const struct fault *f)
{
    if (f->for_ms >= 0)
        step(w, (uint64_t)f->for_ms * MS);
    w->script->end = f->for_ms >= 0 ? SCRIPT_FIN : SCRIPT_HANG;
}

/* ---- streamed ---- */

static void comment(struct writer *w, uint64_t delay_us)
{
    shape_comment(w->r, &w->scratch);
    chunk_step(w, delay_us);
}

/* The words [from, to), each after the gap; the very first one after `first_us`. */
static void words(struct writer *w, int64_t from, int64_t to, uint64_t first_us, const struct script_pace *pace,
                  const struct fault *f)
{
    for (int64_t i = from; i < to; i++) {
        struct arena_mark mark = arena_mark(w->arena);
        shape_delta(w->r, shape_word(w->r, i, w->arena), &w->scratch);
        arena_reset(w->arena, mark);
        chunk_step(w, i == 0 ? first_us : pace->gap_us);
        if (f->kind == FAULT_COMMENTS)
            comment(w, 0);
    }
}

static void stream_error(struct writer *w)
{
    struct shape_error e;
    shape_error_of_status(w->r->dialect, w->r->dialect == SHAPE_OPENAI ? 500 : 529, &e);
    shape_error_event(w->r, &e, &w->scratch);
    chunk_step(w, 0);
    last_chunk_step(w);
}

static struct bytes filler(struct writer *w, size_t n)
{
    char *text = arena_alloc_raw(w->arena, n);
    memset(text, 'x', n);
    return bytes_from(text, n);
}

static void huge_event(struct writer *w, size_t n)
{
    struct arena_mark mark = arena_mark(w->arena);
    shape_delta(w->r, filler(w, n), &w->scratch);
    arena_reset(w->arena, mark);
    chunk_step(w, 0);
}

/* What happens after the words that came before the fault; true = the script ends there. */
static bool break_off(struct writer *w, const struct fault *f)
{
    switch (f->kind) {
    case FAULT_ERROR_AFTER_TOKEN:
        stream_error(w);
        return true;
    case FAULT_CUT:
        w->script->end = SCRIPT_FIN;
        return true;
    case FAULT_RST_AFTER:
        step(w, RST_DELAY_US); /* so that the words arrive before the reset does */
        w->script->end = SCRIPT_RST;
        return true;
    case FAULT_STALL:
        silence(w, f);
        return true;
    case FAULT_END_EARLY:
        last_chunk_step(w);
        return true;
    case FAULT_MALFORMED:
        shape_bad_event(w->r, &w->scratch);
        chunk_step(w, 0);
        return false;
    case FAULT_HUGE:
        huge_event(w, (size_t)f->bytes);
        return false;
    default:
        return false;
    }
}

static bool breaks_in_the_middle(const struct fault *f)
{
    return f->kind == FAULT_ERROR_AFTER_TOKEN || f->kind == FAULT_CUT || f->kind == FAULT_RST_AFTER ||
           f->kind == FAULT_STALL || f->kind == FAULT_END_EARLY || f->kind == FAULT_MALFORMED || f->kind == FAULT_HUGE;
}

/* The head, or more, and then nothing good; true = the script ends there. */
static bool stops_early(struct writer *w, const struct fault *f)
{
    switch (f->kind) {
    case FAULT_ERROR_IN_200:
        stream_head_step(w, f, 0);
        stream_error(w);
        return true;
    case FAULT_RESET_AFTER_HEAD:
        stream_head_step(w, f, 0);
        step(w, RST_DELAY_US);
        w->script->end = SCRIPT_RST;
        return true;
    case FAULT_HANG_AFTER_HEAD:
        stream_head_step(w, f, 0);
        silence(w, f);
        return true;
    case FAULT_HANG_AFTER_ROLE:
        stream_head_step(w, f, 0);
        shape_open(w->r, &w->scratch);
        chunk_step(w, 0);
        silence(w, f);
        return true;
    default:
        return false;
    }
}

/* Head and opening; returns what is left of the time to the first word. OpenAI's head waits for the first token;
 * Anthropic's comes at once, as does its opening. */
static uint64_t open_stream(struct writer *w, uint64_t ttft_us, const struct fault *f)
{
    bool is_openai = w->r->dialect == SHAPE_OPENAI, is_head_first = !is_openai;
    if (f->kind == FAULT_COMMENTS || f->kind == FAULT_SLOW_AFTER_HEAD)
        is_head_first = true;
    stream_head_step(w, f, is_head_first ? 0 : ttft_us);
    uint64_t left = is_head_first ? ttft_us : 0, before_opening = 0;
    for (int i = 0; f->kind == FAULT_COMMENTS && i < COMMENTS_BEFORE; i++)
        comment(w, ttft_us / (COMMENTS_BEFORE + 1));
    if (f->kind == FAULT_COMMENTS)
        left -= COMMENTS_BEFORE * (ttft_us / (COMMENTS_BEFORE + 1));
    if (is_head_first && (is_openai || f->kind == FAULT_SLOW_AFTER_HEAD))
        before_opening = left;
    shape_open(w->r, &w->scratch);
    chunk_step(w, before_opening);
    return left - before_opening;
}

static void stream(struct writer *w, const struct script_pace *pace, const struct fault *f)
{
    if (stops_early(w, f))
        return;
    uint64_t first_us = open_stream(w, pace->ttft_us, f);
    int64_t before = breaks_in_the_middle(f) ? fault_after(f) : 0;
    before = before < w->r->n_words ? before : w->r->n_words;
    words(w, 0, before, first_us, pace, f);
    if (break_off(w, f))
        return;
    words(w, before, w->r->n_words, first_us, pace, f);
    shape_finish(w->r, &w->scratch);
    chunk_step(w, 0);
    if (f->kind != FAULT_NO_DONE) {
        shape_terminal(w->r, &w->scratch);
        chunk_step(w, 0);
    }
    if (f->kind == FAULT_NO_LAST_CHUNK)
        w->script->end = SCRIPT_FIN;
    else
        last_chunk_step(w);
}

/* ---- whole ---- */

/* Head and the first n bytes of the body, then what the fault says. */
static void half(struct writer *w, struct bytes body, size_t n, uint64_t delay_us, const struct fault *f)
{
    head(w, 200, "application/json");
    head_put_field_u64(&w->scratch, "Content-Length", body.n);
    head_put_end(&w->scratch);
    buf_put(&w->scratch, bytes_slice(body, 0, n));
    step(w, delay_us);
    bool is_reset = f->kind == FAULT_RST_AFTER || f->kind == FAULT_RESET_AFTER_HEAD;
    if (is_reset)
        step(w, RST_DELAY_US);
    if (is_reset || f->kind == FAULT_CUT || f->kind == FAULT_END_EARLY || f->kind == FAULT_NO_LAST_CHUNK)
        w->script->end = is_reset ? SCRIPT_RST : SCRIPT_FIN;
    else
        silence(w, f);
}

static void whole_body(struct writer *w, const struct fault *f, struct buf *body)
{
    struct shape_error e;
    switch (f->kind) {
    case FAULT_ERROR_IN_200:
    case FAULT_ERROR_AFTER_TOKEN:
        shape_error_of_status(w->r->dialect, w->r->dialect == SHAPE_OPENAI ? 500 : 529, &e);
        shape_error_body(w->r, &e, body);
        break;
    case FAULT_MALFORMED:
        buf_puts(body, "{\"id\":\"mock\",\"object\":");
        break;
    case FAULT_HUGE:
        shape_whole(w->r, filler(w, (size_t)f->bytes), w->arena, body);
        break;
    default:
        shape_whole(w->r, BYTES(""), w->arena, body);
    }
}

/* The head at once; the body after `us`, with blank lines while it is waited for where the fault wants comments. */
static void late_body(struct writer *w, struct bytes body, uint64_t us, const struct fault *f)
{
    size_t n_blanks = f->kind == FAULT_COMMENTS ? COMMENTS_BEFORE : 0;
    uint64_t part = us / (n_blanks + 1);
    head(w, 200, "application/json");
    head_put_field_u64(&w->scratch, "Content-Length", body.n + n_blanks);
    head_put_end(&w->scratch);
    step(w, 0);
    for (size_t i = 0; i < n_blanks; i++) {
        buf_putc(&w->scratch, '\n');
        step(w, part);
    }
    buf_put(&w->scratch, body);
    step(w, us - part * n_blanks);
}

static void whole(struct writer *w, const struct script_pace *pace, const struct fault *f)
{
    struct buf body = {0};
    uint64_t us = pace->ttft_us + pace->gap_us * (uint64_t)(w->r->n_words > 0 ? w->r->n_words - 1 : 0);
    whole_body(w, f, &body);
    switch (f->kind) {
    case FAULT_HANG_AFTER_HEAD:
    case FAULT_RESET_AFTER_HEAD:
        half(w, buf_bytes(&body), 0, 0, f);
        break;
    case FAULT_HANG_AFTER_ROLE:
        half(w, buf_bytes(&body), 1, 0, f);
        break;
    case FAULT_CUT:
    case FAULT_RST_AFTER:
    case FAULT_STALL:
    case FAULT_END_EARLY:
        half(w, buf_bytes(&body), body.n / 2, us, f);
        break;
    case FAULT_NO_LAST_CHUNK:
        half(w, buf_bytes(&body), body.n - 1, us, f);
        break;
    case FAULT_COMMENTS:
    case FAULT_SLOW_AFTER_HEAD:
        late_body(w, buf_bytes(&body), us, f);
        break;
    default:
        head(w, 200, f->kind == FAULT_WRONG_TYPE ? "text/plain" : "application/json");
        whole_step(w, buf_bytes(&body), us);
    }
    buf_fini(&body);
}

/* ---- both ---- */

static void failed_before_chat(struct writer *w, const struct fault *f)
{
    const struct bytes page = BYTES("<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n");
    switch (f->kind) {
    case FAULT_HTML:
        head(w, f->status != 0 ? f->status : 200, "text/html");
        whole_step(w, page, 0);
        break;
    case FAULT_EMPTY:
        head(w, 200, w->r->is_stream ? "text/event-stream" : "application/json");
        whole_step(w, BYTES(""), 0);
        break;
    case FAULT_HANG:
    case FAULT_DEAF:
        silence(w, f);
        break;
    default:
        w->script->end = SCRIPT_RST;
    }
}

static bool is_error(const struct fault *f, enum shape_dialect d, struct shape_error *e)
{
    if (f->kind == FAULT_STATUS)
        shape_error_of_status(d, f->status, e);
    else if (f->kind == FAULT_QUOTA)
        shape_error_quota(d, e);
    else if (f->kind == FAULT_CONTEXT)
        shape_error_context(d, e);
    else if (f->kind == FAULT_POLICY)
        shape_error_policy(d, e);
    else
        return false;
    e->retry_after_ms = f->retry_after_ms;
    return true;
}

/* At most: head, opening, each word, finish, terminal event, last chunk; comments double the words. */
static size_t n_steps_max(const struct shape_request *r, const struct fault *f)
{
    size_t n = (size_t)r->n_words;
    return (f->kind == FAULT_COMMENTS ? 2 * n : n) + STEPS_MORE;
}

void script_chat(const struct shape_request *r, const struct script_pace *pace, const struct fault *f,
                 struct arena *arena, struct script *out)
{
    struct writer w;
    struct shape_error e;
    struct script_pace p = *pace;
    if (is_error(f, r->dialect, &e)) {
        script_error(r, &e, arena, out);
        return;
    }
    if (f->ttft_ms >= 0)
        p.ttft_us = (uint64_t)f->ttft_ms * MS;
    init(&w, r, n_steps_max(r, f), arena, out);
    bool is_early = f->kind == FAULT_HTML || f->kind == FAULT_EMPTY || f->kind == FAULT_HANG || f->kind == FAULT_DEAF ||
                    f->kind == FAULT_RESET || f->kind == FAULT_REFUSE;
    if (is_early)
        failed_before_chat(&w, f);
    else if (r->is_stream)
        stream(&w, &p, f);
    else
        whole(&w, &p, f);
    if (f->kind == FAULT_SPLIT || f->kind == FAULT_DRIP) {
        out->piece_bytes = f->kind == FAULT_DRIP ? 1 : (size_t)f->bytes;
        out->piece_ms = f->for_ms >= 0 ? (uint32_t)f->for_ms : 0;
    }
    buf_fini(&w.scratch);
}
