/* A script is built from the well-formed answer: head, opening, words, finish, terminal event; a fault leaves parts
 * out, puts something between them, or changes the end. */
#include "lab/script.h"

#include "http/body.h"

enum { STEPS_MORE = 8, RST_DELAY_MS = 20 };

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
static void step(struct writer *w, uint32_t delay_ms)
{
    w->script->steps[w->script->n++] = (struct script_step){delay_ms, arena_dup(w->arena, buf_bytes(&w->scratch))};
    buf_clear(&w->scratch);
}

/* The scratch as one chunk of the body. */
static void chunk_step(struct writer *w, uint32_t delay_ms)
{
    char head[BODY_CHUNK_HEAD_BYTES];
    struct bytes payload = arena_dup(w->arena, buf_bytes(&w->scratch));
    buf_clear(&w->scratch);
    buf_put(&w->scratch, bytes_from(head, body_chunk_head(head, payload.n)));
    buf_put(&w->scratch, payload);
    buf_puts(&w->scratch, "\r\n");
    step(w, delay_ms);
}

static void head(struct writer *w, unsigned status, const char *type)
{
    w->script->status = status;
    head_put_status(&w->scratch, status);
    head_put_field(&w->scratch, "Content-Type", bytes_of(type));
    if (w->r != NULL)
        shape_fields(w->r, &w->scratch);
}

static void whole_step(struct writer *w, struct bytes body, uint32_t delay_ms)
{
    head_put_field_u64(&w->scratch, "Content-Length", body.n);
    head_put_end(&w->scratch);
    buf_put(&w->scratch, body);
    step(w, delay_ms);
}

static void stream_head_step(struct writer *w, uint32_t delay_ms)
{
    head(w, 200, "text/event-stream; charset=utf-8");
    head_put_field(&w->scratch, "Cache-Control", BYTES("no-cache"));
    head_put_field(&w->scratch, "Transfer-Encoding", BYTES("chunked"));
    head_put_end(&w->scratch);
    step(w, delay_ms);
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

/* ---- streamed ---- */

/* The words [from, to), each after the gap; the very first one after `first_ms`. */
static void words(struct writer *w, int64_t from, int64_t to, uint32_t first_ms, uint32_t gap_ms)
{
    for (int64_t i = from; i < to; i++) {
        struct arena_mark mark = arena_mark(w->arena);
        shape_delta(w->r, shape_word(w->r, i, w->arena), &w->scratch);
        arena_reset(w->arena, mark);
        chunk_step(w, i == 0 ? first_ms : gap_ms);
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
        step(w, RST_DELAY_MS); /* so that the words arrive before the reset does */
        w->script->end = SCRIPT_RST;
        return true;
    case FAULT_STALL:
        w->script->end = SCRIPT_HANG;
        return true;
    case FAULT_END_EARLY:
        last_chunk_step(w);
        return true;
    case FAULT_MALFORMED:
        shape_bad_event(w->r, &w->scratch);
        chunk_step(w, 0);
        return false;
    default:
        return false;
    }
}

static bool breaks_in_the_middle(const struct fault *f)
{
    return f->kind == FAULT_ERROR_AFTER_TOKEN || f->kind == FAULT_CUT || f->kind == FAULT_RST_AFTER ||
           f->kind == FAULT_STALL || f->kind == FAULT_END_EARLY || f->kind == FAULT_MALFORMED;
}

/* OpenAI's head waits for the first token; Anthropic's comes at once. */
static void stream(struct writer *w, const struct script_pace *pace, const struct fault *f)
{
    bool is_openai = w->r->dialect == SHAPE_OPENAI;
    uint32_t head_ms = is_openai ? pace->ttft_ms : 0, first_ms = is_openai ? 0 : pace->ttft_ms;
    bool hangs_early = f->kind == FAULT_HANG_AFTER_HEAD || f->kind == FAULT_HANG_AFTER_ROLE;
    stream_head_step(w, hangs_early || f->kind == FAULT_ERROR_IN_200 ? 0 : head_ms);
    if (f->kind == FAULT_ERROR_IN_200) {
        stream_error(w);
        return;
    }
    if (f->kind != FAULT_HANG_AFTER_HEAD) {
        shape_open(w->r, &w->scratch);
        chunk_step(w, 0);
    }
    if (hangs_early) {
        w->script->end = SCRIPT_HANG;
        return;
    }
    int64_t before = breaks_in_the_middle(f) ? fault_after(f) : 0;
    before = before < w->r->n_words ? before : w->r->n_words;
    words(w, 0, before, first_ms, pace->gap_ms);
    if (break_off(w, f))
        return;
    words(w, before, w->r->n_words, first_ms, pace->gap_ms);
    shape_finish(w->r, &w->scratch);
    chunk_step(w, 0);
    if (f->kind != FAULT_NO_DONE) {
        shape_terminal(w->r, &w->scratch);
        chunk_step(w, 0);
    }
    last_chunk_step(w);
}

/* ---- whole ---- */

static enum script_end end_of(enum fault_kind k)
{
    if (k == FAULT_CUT || k == FAULT_END_EARLY)
        return SCRIPT_FIN;
    return k == FAULT_RST_AFTER ? SCRIPT_RST : SCRIPT_HANG;
}

/* Head and a part of the body, then what the fault says. */
static void half(struct writer *w, struct bytes body, size_t n, uint32_t delay_ms, enum script_end end)
{
    head(w, 200, "application/json");
    head_put_field_u64(&w->scratch, "Content-Length", body.n);
    head_put_end(&w->scratch);
    buf_put(&w->scratch, bytes_slice(body, 0, n));
    step(w, delay_ms);
    if (end == SCRIPT_RST)
        step(w, RST_DELAY_MS);
    w->script->end = end;
}

static void whole(struct writer *w, const struct script_pace *pace, const struct fault *f)
{
    struct buf body = {0};
    struct shape_error e;
    uint32_t ms = pace->ttft_ms + pace->gap_ms * (uint32_t)(w->r->n_words > 0 ? w->r->n_words - 1 : 0);
    switch (f->kind) {
    case FAULT_ERROR_IN_200:
    case FAULT_ERROR_AFTER_TOKEN:
        shape_error_of_status(w->r->dialect, w->r->dialect == SHAPE_OPENAI ? 500 : 529, &e);
        shape_error_body(w->r, &e, &body);
        break;
    case FAULT_MALFORMED:
        buf_puts(&body, "{\"id\":\"mock\",\"object\":");
        break;
    default:
        shape_whole(w->r, w->arena, &body);
    }
    if (f->kind == FAULT_HANG_AFTER_HEAD)
        half(w, buf_bytes(&body), 0, 0, SCRIPT_HANG);
    else if (f->kind == FAULT_HANG_AFTER_ROLE)
        half(w, buf_bytes(&body), 1, 0, SCRIPT_HANG);
    else if (breaks_in_the_middle(f) && f->kind != FAULT_MALFORMED && f->kind != FAULT_ERROR_AFTER_TOKEN)
        half(w, buf_bytes(&body), body.n / 2, ms, end_of(f->kind));
    else {
        head(w, 200, "application/json");
        whole_step(w, buf_bytes(&body), ms);
    }
    buf_fini(&body);
}

/* ---- both ---- */

static void failed_before_chat(struct writer *w, const struct fault *f)
{
    const struct bytes page = BYTES("<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n");
    switch (f->kind) {
    case FAULT_HTML:
        head(w, 200, "text/html");
        whole_step(w, page, 0);
        break;
    case FAULT_EMPTY:
        head(w, 200, w->r->is_stream ? "text/event-stream" : "application/json");
        whole_step(w, BYTES(""), 0);
        break;
    case FAULT_HANG:
        w->script->end = SCRIPT_HANG;
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
    else
        return false;
    e->retry_after_ms = f->retry_after_ms;
    return true;
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
        p.ttft_ms = (uint32_t)f->ttft_ms;
    init(&w, r, (size_t)r->n_words + STEPS_MORE, arena, out);
    bool is_early = f->kind == FAULT_HTML || f->kind == FAULT_EMPTY || f->kind == FAULT_HANG ||
                    f->kind == FAULT_RESET || f->kind == FAULT_REFUSE;
    if (is_early)
        failed_before_chat(&w, f);
    else if (r->is_stream)
        stream(&w, &p, f);
    else
        whole(&w, &p, f);
    buf_fini(&w.scratch);
}
