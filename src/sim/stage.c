/* A queue of cues by time. An attempt has one cue in it at a time, the next one of its part, so the queue is as long as
 * there are attempts out, whatever the number of requests:
 *
 *     start -> connected -> head -> token -> more … more -> end
 *
 * "More" keeps the idle clock from firing while an answer is being generated. A cue of an attempt or a request that is
 * over is dropped when its turn comes. */
#include "sim/stage.h"

#include "base/mem.h"
#include "relay/caching.h"

enum cue_kind { CUE_CONNECTED, CUE_HEAD, CUE_TOKEN, CUE_MORE, CUE_END, CUE_TIMER, CUE_LEAVE };
enum { PARTS_OUT = 2 /* one, and a hedge */, GUEST_LINKS = 64, MORE_US_MIN = 1000 };

struct cue {
    uint64_t at_us, seq;
    uint32_t guest;
    uint32_t life; /* of the guest's place */
    uint16_t n;    /* attempt */
    enum cue_kind kind;
};

struct out {    /* an attempt that is out */
    uint16_t n; /* 0 = none */
    uint64_t start_us;
    const struct link_conf *link;
    struct part part;
    struct part_ask ask;
    uint32_t told_bytes;
    bool is_joining; /* it is to go on with an answer that broke off, and has not met it yet */
};

struct guest {
    uint32_t place, life;
    bool is_in;
    size_t request;
    struct arena arena;
    struct stage_request asked;
    struct relay *relay;
    struct directive directive;
    struct caching caching;
    uint64_t armed_us;
    struct out out[PARTS_OUT];
    uint8_t n_asked[GUEST_LINKS]; /* attempts so far, by link */
};

struct stage {
    const struct stage_conf *conf;
    struct rng rng;
    struct relay_env env;
    struct cache_memory *caches;
    uint64_t now_us, seq;
    struct cue *cues; /* binary heap */
    size_t n_cues, cap_cues;
    struct guest **guests; /* by place; places are used again */
    size_t n_guests, cap_guests;
    uint32_t *idle; /* places that are free */
    size_t n_idle;
    size_t n_requests;
};

/* ---- the queue ---- */

static bool is_sooner(const struct cue *a, const struct cue *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static void put_cue(struct stage *s, struct cue c)
{
    if (s->n_cues == s->cap_cues) {
        s->cap_cues = s->cap_cues ? 2 * s->cap_cues : 256;
        s->cues = mem_realloc(s->cues, s->cap_cues * sizeof *s->cues);
    }
    c.seq = s->seq++;
    c.at_us = c.at_us < s->now_us ? s->now_us : c.at_us;
    size_t i = s->n_cues++;
    for (; i > 0 && is_sooner(&c, &s->cues[(i - 1) / 2]); i = (i - 1) / 2)
        s->cues[i] = s->cues[(i - 1) / 2];
    s->cues[i] = c;
}

static struct cue take_cue(struct stage *s)
{
    struct cue first = s->cues[0], last = s->cues[--s->n_cues];
    size_t i = 0;
    for (size_t k = 1; k < s->n_cues; k = 2 * i + 1) {
        if (k + 1 < s->n_cues && is_sooner(&s->cues[k + 1], &s->cues[k]))
            k++;
        if (!is_sooner(&s->cues[k], &last))
            break;
        s->cues[i] = s->cues[k];
        i = k;
    }
    s->cues[i] = last;
    return first;
}

/* ---- guests ---- */

static struct guest *seat(struct stage *s)
{
    if (s->n_idle > 0)
        return s->guests[s->idle[--s->n_idle]];
    if (s->n_guests == s->cap_guests) {
        s->cap_guests = s->cap_guests ? 2 * s->cap_guests : 64;
        s->guests = mem_realloc(s->guests, s->cap_guests * sizeof(struct guest *));
        s->idle = mem_realloc(s->idle, s->cap_guests * sizeof *s->idle);
    }
    struct guest *g = mem_zalloc(sizeof *g);
    g->place = (uint32_t)s->n_guests;
    s->guests[s->n_guests++] = g;
    return g;
}

static void leave_seat(struct stage *s, struct guest *g)
{
    arena_fini(&g->arena);
    g->is_in = false;
    g->life++;
    s->idle[s->n_idle++] = g->place;
}

static struct out *out_of(struct guest *g, uint16_t n)
{
    for (size_t i = 0; n != 0 && i < PARTS_OUT; i++)
        if (g->out[i].n == n)
            return &g->out[i];
    return NULL;
}

/* ---- parts ---- */

static void cue_attempt(struct stage *s, const struct guest *g, const struct out *o, enum cue_kind kind, uint64_t at_us)
{
    put_cue(s, (struct cue){.at_us = at_us, .guest = g->place, .life = g->life, .n = o->n, .kind = kind});
}

static uint64_t more_us(const struct out *o)
{
    uint64_t us = (uint64_t)o->link->idle_timeout_ms * 1000 / 2;
    return us < MORE_US_MIN ? MORE_US_MIN : us;
}

/* What comes after the token, or after more of the answer. */
static void cue_more(struct stage *s, const struct guest *g, const struct out *o)
{
    const struct part *p = &o->part;
    uint64_t end_us = p->end_us >= 0 ? o->start_us + (uint64_t)p->end_us : UINT64_MAX;
    uint64_t quiet_us = p->quiet_us >= 0 ? o->start_us + (uint64_t)p->quiet_us : end_us;
    uint64_t next_us = s->now_us + more_us(o);
    if (p->end_us < 0 && p->quiet_us < 0)
        return;
    if (next_us < end_us && next_us < quiet_us)
        cue_attempt(s, g, o, CUE_MORE, next_us);
    else if (p->end_us >= 0)
        cue_attempt(s, g, o, CUE_END, end_us);
}

/* The next cue of the attempt, after `done`. */
static void cue_next(struct stage *s, const struct guest *g, const struct out *o, enum cue_kind done)
{
    const struct part *p = &o->part;
    if (done < CUE_HEAD && p->head_us >= 0)
        cue_attempt(s, g, o, CUE_HEAD, o->start_us + (uint64_t)p->head_us);
    else if (done < CUE_TOKEN && p->token_us >= 0)
        cue_attempt(s, g, o, CUE_TOKEN, o->start_us + (uint64_t)p->token_us);
    else if (done >= CUE_TOKEN)
        cue_more(s, g, o);
    else if (p->end_us >= 0)
        cue_attempt(s, g, o, CUE_END, o->start_us + (uint64_t)p->end_us);
}

static void never_connects(struct part *p, uint32_t timeout_ms)
{
    failure_make(&p->failure, OUTCOME_CONNECT_TIMEOUT, "no connection in time");
    p->failure.is_unsent = p->is_unsent = p->has_failed = true;
    p->head_us = p->token_us = p->quiet_us = -1;
    p->end_us = (int64_t)timeout_ms * 1000;
}

/* Attempts of this request at the link's target so far, at whatever place of the chain. */
static unsigned n_asked(const struct stage *s, const struct guest *g, const struct link_conf *link)
{
    const struct route_conf *route = s->conf->route;
    unsigned n = 0;
    for (size_t i = 0; i < route->n_links && i < GUEST_LINKS; i++)
        n += route->links[i].target_id == link->target_id ? g->n_asked[i] : 0;
    return n;
}

/* Is its prompt cache asked for? */
static enum cache_mark mark_of(struct stage *s, struct guest *g, const struct relay_action *a)
{
    if (caching_withholds(&g->caching, g->relay, a->link, a->n, s->env.registry, s->now_us))
        return CACHE_WITHHELD;
    return g->caching.ttl_s > 0 ? CACHE_ASKED : CACHE_NOT_ASKED;
}

/* False: the request cannot be put to this link. */
static bool start_part(struct stage *s, struct guest *g, const struct relay_action *a)
{
    struct out *o = &g->out[g->out[0].n != 0];
    unsigned at = a->link->index % GUEST_LINKS;
    RM_ASSERT(o->n == 0);
    *o = (struct out){.n = a->n, .start_us = s->now_us, .link = a->link, .part = {.usage = USAGE_NONE}};
    o->is_joining = a->resume != RESUME_NONE;
    o->ask = (struct part_ask){g->request, a->link, n_asked(s, g, a->link), s->now_us, a->quirks, mark_of(s, g, a)};
    g->n_asked[at] += g->n_asked[at] < UINT8_MAX;
    s->conf->host.play(s->conf->host.arg, &o->ask, &o->part);
    struct part *p = &o->part;
    if (p->is_unable) {
        o->n = 0;
        return false;
    }
    if (!p->has_failed && p->connect_us < 0)
        never_connects(p, a->connect_timeout_ms);
    else if (p->connect_us > (int64_t)a->connect_timeout_ms * 1000)
        never_connects(p, a->connect_timeout_ms);
    if (p->connect_us >= 0 && (!p->is_unsent || !p->has_failed))
        cue_attempt(s, g, o, CUE_CONNECTED, o->start_us + (uint64_t)p->connect_us);
    else
        cue_next(s, g, o, CUE_CONNECTED);
    return true;
}

/* ---- feeding ---- */

static void arm(struct stage *s, struct guest *g)
{
    uint64_t wake = relay_wake_us(g->relay);
    if (wake == 0 || wake == g->armed_us)
        return;
    g->armed_us = wake;
    put_cue(s, (struct cue){.at_us = wake, .guest = g->place, .life = g->life, .kind = CUE_TIMER});
}

/* True when the guest has left. */
static bool carry_out(struct stage *s, struct guest *g, const struct relay_action *a, uint16_t *unable)
{
    struct out *o = out_of(g, a->n);
    switch (a->kind) {
    case ACT_START:
        if (!start_part(s, g, a))
            *unable = a->n;
        return false;
    case ACT_CANCEL:
    case ACT_END:
        if (o != NULL)
            o->n = 0;
        return false;
    case ACT_COMMIT:
        caching_commit(&g->caching, g->relay, a->n, s->now_us);
        return false;
    case ACT_RECORD:
        caching_end(&g->caching, g->relay, s->now_us);
        s->conf->sink.take(s->conf->sink.arg, g->request, relay_record(g->relay));
        leave_seat(s, g);
        return true;
    default:
        return false;
    }
}

static void feed(struct stage *s, struct guest *g, struct relay_event ev)
{
    struct relay_actions acts;
    uint16_t unable;
    ev.now_us = s->now_us;
    do {
        unable = 0;
        relay_event(g->relay, &ev, &acts);
        for (size_t i = 0; i < acts.n; i++)
            if (carry_out(s, g, &acts.v[i], &unable))
                return;
        ev = (struct relay_event){
            .kind = RELAY_UNBUILDABLE, .now_us = s->now_us, .n = unable, .why = "not able to, on record"};
    } while (unable != 0);
    arm(s, g);
}

static void feed_output(struct stage *s, struct guest *g, struct out *o, struct event e)
{
    struct relay_event ev = {.kind = RELAY_OUTPUT, .n = o->n, .event = &e, .bytes = e.text_bytes};
    feed(s, g, ev);
}

/* As much of the answer's text as its time has come. */
static void tell_text(struct stage *s, struct guest *g, struct out *o)
{
    const struct part *p = &o->part;
    double span = (double)(p->end_us - p->token_us);
    double gone = (double)(s->now_us - o->start_us) - (double)p->token_us;
    double share = p->end_us > p->token_us && gone < span ? gone / span : p->end_us >= 0 ? 1 : 0;
    uint32_t all = (uint32_t)(share * p->text_bytes), more = all > o->told_bytes ? all - o->told_bytes : 0;
    o->told_bytes += more;
    feed_output(s, g, o, (struct event){.kind = EVENT_TEXT, .is_token = true, .text_bytes = more, .usage = USAGE_NONE});
}

/* It meets what the client has at its first token, unless it is known to part from it. */
static void join(struct stage *s, struct guest *g, struct out *o)
{
    bool parts = o->part.has_failed && o->part.failure.outcome == OUTCOME_INCOMPATIBLE;
    if (!o->is_joining || parts)
        return;
    o->is_joining = false;
    feed(s, g, (struct relay_event){.kind = RELAY_JOINED, .n = o->n});
}

static void end_part(struct stage *s, struct guest *g, struct out *o)
{
    uint16_t n = o->n;
    uint32_t life = g->life;
    struct failure failure = o->part.failure;
    bool has_failed = o->part.has_failed;
    if (o->part.usage.input >= 0 || o->part.usage.output >= 0) {
        feed_output(s, g, o,
                    (struct event){.kind = EVENT_USAGE, .name = bytes_of(o->part.service), .usage = o->part.usage});
        if (g->life != life || o->n != n)
            return;
    }
    struct relay_event ev = {.kind = has_failed ? RELAY_FAILED : RELAY_ENDED, .n = n};
    ev.failure = has_failed ? &failure : NULL;
    feed(s, g, ev);
}

static void tell_begun(struct stage *s, struct out *o)
{
    o->ask.now_us = s->now_us;
    if (s->conf->host.begun != NULL)
        s->conf->host.begun(s->conf->host.arg, &o->ask);
}

static void do_attempt(struct stage *s, struct guest *g, const struct cue *c)
{
    struct out *o = out_of(g, c->n);
    uint32_t life = g->life;
    if (o == NULL)
        return;
    const struct part *p = &o->part;
    switch (c->kind) {
    case CUE_CONNECTED:
        feed(s, g,
             (struct relay_event){.kind = RELAY_CONNECTED, .n = c->n, .connect_us = p->is_reused ? -1 : p->connect_us});
        if (g->life == life && o->n == c->n)
            feed(s, g, (struct relay_event){.kind = RELAY_SENT, .n = c->n});
        break;
    case CUE_HEAD:
        feed(s, g, (struct relay_event){.kind = RELAY_HEAD, .n = c->n, .status = p->status, .adjusted = ""});
        break;
    case CUE_TOKEN:
        tell_begun(s, o);
        /* fall through */
    case CUE_MORE:
        tell_text(s, g, o);
        if (g->life == life && o->n == c->n)
            join(s, g, o);
        break;
    default:
        end_part(s, g, o);
        return;
    }
    if (g->life == life && o->n == c->n)
        cue_next(s, g, o, c->kind);
}

static void do_cue(struct stage *s, const struct cue *c)
{
    struct guest *g = s->guests[c->guest];
    if (!g->is_in || g->life != c->life)
        return;
    if (c->kind == CUE_LEAVE) {
        feed(s, g, (struct relay_event){.kind = RELAY_CLIENT_GONE});
    } else if (c->kind == CUE_TIMER) {
        g->armed_us = 0;
        feed(s, g, (struct relay_event){.kind = RELAY_TIME});
    } else {
        do_attempt(s, g, c);
    }
}

/* ---- arrivals ---- */

/* What the client asked for besides, and what is made of it. */
static void direct(struct stage *s, struct guest *g)
{
    const struct route_conf *route = s->conf->route;
    struct field routing = {BYTES("x-routing"), bytes_of(g->asked.routing)};
    struct fields fields = {.v = &routing, .n = routing.value.n > 0};
    const char *why;
    if (directive_parse(&fields, route, &g->arena, &g->directive, &why) != ERR_OK)
        g->directive = (struct directive){0};
    g->directive.cache_ttl_s = g->asked.cache_ttl_s;
    struct caching_start start = {.memory = s->caches,
                                  .registry = s->env.registry,
                                  .route = route,
                                  .facts = &g->asked.call,
                                  .key = g->asked.affinity_key,
                                  .arena = &g->arena,
                                  .now_us = s->now_us};
    caching_begin(&g->caching, &start, &g->directive);
}

static void arrive(struct stage *s, const struct stage_request *asked)
{
    struct guest *g = seat(s);
    *g = (struct guest){.place = g->place, .life = g->life, .is_in = true, .request = s->n_requests++, .asked = *asked};
    arena_init(&g->arena);
    direct(s, g);
    const struct route_conf *route = s->conf->route;
    struct relay_start start = {.config = s->conf->config,
                                .route = route,
                                .directive = &g->directive,
                                .call = &g->asked.call,
                                .id = asked->id,
                                .started_wall_ms = asked->wall_ms,
                                .now_us = s->now_us,
                                .key = "",
                                .dialect = asked->dialect,
                                .trace_id = ""};
    g->relay = relay_new(&g->arena, &s->env, &start);
    if (asked->leave_us >= 0)
        put_cue(s, (struct cue){.at_us = s->now_us + (uint64_t)asked->leave_us,
                                .guest = g->place,
                                .life = g->life,
                                .kind = CUE_LEAVE});
    feed(s, g, (struct relay_event){.kind = RELAY_START});
}

static void play(struct stage *s)
{
    const struct stage_source *source = &s->conf->source;
    struct stage_request next;
    bool has_next = source->next(source->arg, &next);
    while (has_next || s->n_cues > 0) {
        bool is_cue = s->n_cues > 0 && (!has_next || s->cues[0].at_us < next.at_us);
        uint64_t at_us = is_cue ? s->cues[0].at_us : next.at_us;
        RM_ASSERT(at_us >= s->now_us);
        s->now_us = at_us;
        if (is_cue) {
            struct cue c = take_cue(s);
            do_cue(s, &c);
        } else {
            arrive(s, &next);
            has_next = source->next(source->arg, &next);
        }
    }
}

enum err stage_run(const struct stage_conf *conf)
{
    struct stage s = {.conf = conf, .rng = {conf->seed}};
    struct latency *latency = latency_new(1);
    struct ratio_book *ratios = ratio_book_new(1);
    s.env = (struct relay_env){.registry = registry_new(),
                               .rng = &s.rng,
                               .hedges = hedge_book_new(),
                               .latency = latency_core(latency, 0),
                               .ratios = ratio_core(ratios, 0)};
    s.caches = cache_memory_new();
    enum err e = plan_bind(s.env.registry, conf->config);
    if (e == ERR_OK)
        play(&s);
    for (size_t i = 0; i < s.n_guests; i++) {
        RM_ASSERT(!s.guests[i]->is_in);
        mem_free(s.guests[i]);
    }
    mem_free(s.guests);
    mem_free(s.idle);
    mem_free(s.cues);
    registry_free(s.env.registry);
    hedge_book_free(s.env.hedges);
    latency_free(latency);
    ratio_book_free(ratios);
    cache_memory_free(s.caches);
    return e;
}
