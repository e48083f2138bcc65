/* What to answer, decided in the order in which a provider would: key, path, body, model, its own limit, the fault, the
 * prefill, the cache, the pace. Everything that is drawn comes from a generator of the request's own. */
#include "lab/fb.h"
#include "lab/mock_ask.h"
#include "lab/mock_impl.h"
#include "lab/mock_prefill.h"

#include <stdio.h>

enum { FB_GAP_US = FB_GAP_MS * 1000 };

/* One chat being decided. */
struct chat {
    struct provider *p;
    const struct mock_request *q;
    struct mock_ask ask;
    struct shape_request shape;
    struct rng rng;
    uint64_t attempt; /* of this model */
    struct fault fault;
    /* what is told, and how */
    const char *words;
    int64_t n_words;
    enum mock_prefill prefill;
    struct script_pace pace;
};

static void answer_error(const struct chat *c, const struct shape_error *e)
{
    script_error(&c->shape, e, c->q->arena, c->q->script);
}

static void answer_status(const struct chat *c, unsigned status, const char *message)
{
    struct shape_error e;
    shape_error_of_status(c->shape.dialect, status, &e);
    if (message != NULL)
        e.message = message;
    answer_error(c, &e);
}

static bool is_chat_path(const struct chat *c)
{
    struct bytes end = c->shape.dialect == SHAPE_OPENAI ? BYTES("/chat/completions") : BYTES("/v1/messages");
    return bytes_is(c->q->head->method, "POST") && bytes_ends_with(c->q->head->path, end);
}

static bool has_key(const struct chat *c)
{
    const struct fields *fields = &c->q->head->fields;
    struct bytes key = bytes_of(c->p->conf.key), got = fields_get(fields, "authorization");
    if (key.n == 0)
        return true;
    if (c->shape.dialect == SHAPE_ANTHROPIC)
        return bytes_eq(fields_get(fields, "x-api-key"), key);
    return bytes_eq(bytes_slice(got, 0, 7), BYTES("Bearer ")) && bytes_eq(bytes_slice(got, 7, got.n), key);
}

static bool has_model(const struct chat *c)
{
    const struct mock_conf *conf = &c->p->conf;
    for (size_t i = 0; i < conf->n_models; i++)
        if (bytes_is(c->ask.model, conf->models[i]))
            return true;
    return conf->n_models == 0;
}

/* ---- the fault, and what is told ---- */

static void note_fault(const struct chat *c, const char *word)
{
    struct seen *s = c->q->seen;
    if (c->fault.kind == FAULT_STATUS)
        snprintf(s->fault, sizeof s->fault, "%u", c->fault.status);
    else if (c->fault.kind != FAULT_NONE)
        snprintf(s->fault, sizeof s->fault, "%s", word);
}

static void tell_own_words(struct chat *c)
{
    const struct mock_conf *conf = &c->p->conf;
    c->words = conf->words;
    c->pace.ttft_us = spread_draw(&conf->ttft_ms, &c->rng, (uint64_t)c->ask.prompt_tokens);
    c->pace.gap_us = conf->gap_us;
    c->n_words = (int64_t)(spread_draw(&conf->tokens, &c->rng, 0) + 500) / 1000;
    c->prefill = conf->prefill;
}

static void tell_fb_words(struct chat *c, struct fb_answer *a)
{
    unsigned speed = c->p->conf.fb_speed;
    fb_answer(c->ask.model, c->attempt, provider_since_reset_ms(c->p), speed, a);
    c->words = fb_words;
    c->n_words = FB_N_WORDS;
    c->pace = (struct script_pace){FB_GAP_US / speed, FB_GAP_US / speed};
    c->prefill = a->rejects_prefill ? PREFILL_REJECT : PREFILL_CONTINUE;
}

/* A marker in the request goes before the provider's rows, and those before what the model's name says. */
static void decide_fault(struct chat *c)
{
    struct fb_answer fb;
    struct rule_facts facts = {c->p->n_chats, provider_since_reset_ms(c->p), c->ask.model};
    tell_own_words(c);
    const struct rule *row = c->ask.has_marker ? NULL : rules_pick(c->p->rules, c->p->n_rules, &facts, &c->rng);
    fault_parse(BYTES("ok"), &c->fault);
    if (c->shape.dialect == SHAPE_OPENAI && fb_is_model(c->ask.model)) {
        tell_fb_words(c, &fb);
        c->fault = fb.fault;
    }
    if (row != NULL)
        c->fault = row->fault;
    if (c->ask.has_marker)
        c->fault = c->ask.marker;
    note_fault(c, fault_word(&c->fault));
}

/* False: the prefill was refused, and that is the answer. */
static bool decide_words(struct chat *c)
{
    struct prefill_fit fit = {0};
    struct shape_error e;
    if (c->ask.has_prefill && c->prefill == PREFILL_REJECT) {
        shape_error_prefill(c->shape.dialect, &e);
        answer_error(c, &e);
        snprintf(c->q->seen->fault, sizeof c->q->seen->fault, "prefill");
        return false;
    }
    if (c->ask.has_prefill && c->prefill == PREFILL_CONTINUE &&
        !prefill_fits(c->words, c->n_words, c->ask.prefill, c->q->arena, &fit))
        fit = (struct prefill_fit){0};
    int64_t left = c->n_words - fit.first_word;
    c->shape.words = c->words;
    c->shape.first_word = fit.first_word;
    c->shape.first_text = fit.first_text;
    c->shape.is_cut_short = c->ask.max_tokens >= 0 && c->ask.max_tokens < left;
    c->shape.n_words = c->shape.is_cut_short ? c->ask.max_tokens : left;
    return true;
}

/* ---- cache and warmth ---- */

/* Is there an answer for which a provider would have read the whole prompt? */
static bool fails_early(const struct fault *f)
{
    switch (f->kind) {
    case FAULT_STATUS:
    case FAULT_QUOTA:
    case FAULT_CONTEXT:
    case FAULT_POLICY:
    case FAULT_REFUSE:
    case FAULT_DEAF:
    case FAULT_RESET:
    case FAULT_RESET_AFTER_HEAD:
    case FAULT_HANG:
    case FAULT_HANG_AFTER_HEAD:
    case FAULT_HANG_AFTER_ROLE:
    case FAULT_ERROR_IN_200:
    case FAULT_HTML:
    case FAULT_EMPTY:
        return true;
    default:
        return false;
    }
}

/* What was cached costs no time where the time depends on the prompt. */
static void use_cache(struct chat *c)
{
    const struct mock_conf *conf = &c->p->conf;
    struct cache_prompt prompt;
    struct cache_use use;
    uint64_t now_us = loop_now_us(c->p->mock->loop), all = (uint64_t)c->ask.prompt_tokens;
    if (c->p->cache == NULL)
        return;
    cache_prompt_read(c->ask.root, c->shape.dialect, c->q->arena, &prompt);
    mock_cache_use(c->p->cache, c->shape.dialect, &prompt, now_us, now_us + c->pace.ttft_us, fails_early(&c->fault),
                   &use);
    if (conf->ttft_ms.kind == SPREAD_PROMPT && c->words == conf->words)
        c->pace.ttft_us = spread_draw(&conf->ttft_ms, &c->rng, all > use.read ? all - use.read : 0);
    c->shape.cache_read = (int64_t)use.read;
    c->shape.cache_5m = (int64_t)use.written_5m;
    c->shape.cache_1h = (int64_t)use.written_1h;
    c->q->seen->cache_read = c->shape.cache_read;
    c->q->seen->cache_write = c->shape.cache_5m + c->shape.cache_1h;
}

static void answer_chat(struct chat *c)
{
    if (!decide_words(c))
        return;
    if (provider_is_cold(c->p))
        c->pace.ttft_us += c->p->conf.cold.first_token_ms * 1000;
    use_cache(c);
    script_chat(&c->shape, &c->pace, &c->fault, c->q->arena, c->q->script);
}

static void answer_limit(struct chat *c)
{
    struct shape_error e;
    shape_error_of_status(c->shape.dialect, 429, &e);
    e.retry_after_ms = c->p->conf.rate.retry_after_ms;
    answer_error(c, &e);
    snprintf(c->q->seen->fault, sizeof c->q->seen->fault, "rate-limit");
}

/* A request at the right place with the right key. */
static void read_chat(struct chat *c)
{
    const struct mock_conf *conf = &c->p->conf;
    struct seen *s = c->q->seen;
    const char *why = mock_ask_read(c->q->body, conf->dialect, c->q->arena, &c->ask);
    struct shape_error e;
    c->rng = chance_of_request(conf->seed, conf->name, ++c->p->n_chats);
    snprintf(s->model, sizeof s->model, "%.*s", (int)c->ask.model.n, c->ask.model.p != NULL ? c->ask.model.p : "");
    snprintf(s->user, sizeof s->user, "%.*s", (int)c->ask.user.n, c->ask.user.p != NULL ? c->ask.user.p : "");
    s->is_stream = c->ask.is_stream;
    s->prompt_tokens = c->ask.prompt_tokens;
    s->attempt = c->attempt = mock_log_attempt(&c->p->log, c->ask.model);
    c->shape.model = *conf->model != '\0' ? conf->model : arena_dup(c->q->arena, c->ask.model).p;
    c->shape.is_stream = c->ask.is_stream;
    c->shape.wants_usage = c->ask.wants_usage;
    c->shape.has_usage = !conf->no_usage;
    c->shape.prompt_tokens = c->ask.prompt_tokens;
    if (why != NULL) {
        answer_status(c, 400, why);
    } else if (!has_model(c)) {
        shape_error_model(conf->dialect, c->ask.model, c->q->arena, &e);
        answer_error(c, &e);
    } else if (!quota_take(&c->p->quota, &conf->rate, loop_now_us(c->p->mock->loop))) {
        answer_limit(c);
    } else {
        decide_fault(c);
        answer_chat(c);
    }
}

void mock_chat_answer(struct provider *p, const struct mock_request *q)
{
    struct chat c = {.p = p, .q = q};
    c.shape = (struct shape_request){
        .dialect = p->conf.dialect, .n = q->seen->n, .created_s = q->seen->wall_ms / 1000, .model = ""};
    if (!has_key(&c))
        answer_status(&c, 401, NULL);
    else if (!is_chat_path(&c))
        answer_status(&c, 404, "Invalid URL");
    else
        read_chat(&c);
}
