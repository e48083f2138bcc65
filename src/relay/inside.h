/* The inside of a request in flight, shared by the files of this room only. */
#ifndef RM_RELAY_INSIDE_H
#define RM_RELAY_INSIDE_H

#include "plan/candidate.h"
#include "plan/verdict.h"
#include "relay/attempt.h"
#include "relay/relay.h"

enum request_state {
    REQUEST_NEW,
    REQUEST_ADMITTED, /* let in (a queue will stand here) */
    REQUEST_RESERVED, /* money and concurrency reserved (trivially, so far) */
    REQUEST_TRYING,   /* an attempt is out, nothing was shown */
    REQUEST_WAITING,  /* none is out: a pause before the same link again */
    REQUEST_SERVING,  /* committed */
    REQUEST_SETTLING, /* the client has its answer; the books are closed */
    REQUEST_OVER
};

/* What is remembered of the failures so far. */
struct trouble {
    struct failure last;
    const struct link_conf *last_link;      /* NULL = it was no link's */
    const struct link_conf *context_failed; /* its context was too short: only larger windows from here */
    bool is_larger_known;                   /* … and they must be known to be larger */
    /* Waiting for the same link again. */
    bool is_wait_forced; /* the provider's own hint is over: its health word may be taken early */
    bool is_count_owed;  /* the failure before a retry is counted only if the retry does not come */
    bool is_429_owed;
    uint16_t wait_place;
    uint64_t wait_until_us;
};

/* An answer that broke off after its commit, and what may go on with it. */
struct resume {
    bool is_possible;      /* so far the client has plain text only, and not too much to keep */
    bool is_going_on;      /* the stream broke off; whoever is tried now is to go on with it */
    bool is_refused;       /* the link that is tried takes no prefilled answer */
    uint64_t n_told;       /* bytes of text that the client has */
    enum resume_way way;   /* of the attempt that is out */
    struct failure *broke; /* what the client is told if nobody can go on */
    const struct link_conf *broke_link;
};

/* The attempt that the running event is not about: the same members as the relay's own. */
struct beside {
    struct attempt now;
    uint64_t link_start_us;
    uint32_t n_retries;
    bool was_waited, has_link_failed;
    struct trial trial;
};

/* What is known of a place in the chain beside its link. */
enum { PLACE_TRIED = 1 /* an attempt was started */, PLACE_UNBUILDABLE = 2 /* the request cannot be written for it */ };

struct relay {
    const struct relay_env *env;
    const struct config *config;
    const struct route_conf *route;
    const struct directive *directive;    /* may be NULL */
    const struct link_conf *const *order; /* of the chain, by x-routing; NULL = as the route has it */
    const struct call *call;              /* NULL = let go: relay_call */
    int64_t n_choices;                    /* of it, once it was let go */
    struct arena *arena;
    uint64_t zero_us;          /* the request's arrival */
    uint64_t deadline_us;      /* until the commit */
    uint64_t quiet_us;         /* no clock is due before it but the own one of `now`, which moves with each event */
    uint64_t heartbeat_due_us; /* 0 = off */
    uint64_t hedge_due_us;     /* 0 = none is planned */
    uint16_t n_chain, next;    /* next: place to try next */
    uint16_t cap_attempts;
    bool is_later;      /* an earlier link failed for its own reasons */
    bool is_head_sent;  /* the client has seen a status */
    struct attempt now; /* the attempt that is out, or was last: what an event is about */

    /* The link being tried. */
    uint64_t link_start_us; /* start of its first attempt: its budget runs from here; 0 = none yet */
    uint32_t n_retries;
    bool was_waited;
    bool has_link_failed; /* for its own reasons */
    struct sm sm;         /* the request's; here, where there is room for it */
    struct trial trial;   /* held by this request */

    /* In the arena, where there is need of them; else NULL. */
    struct beside *beside;   /* hedged: the other attempt that is out */
    struct trouble *trouble; /* something failed */
    struct resume *resume;   /* wanted by the route, and by a client that streams one choice */
    struct relay_answer *answer;

    struct request_record record;
    struct attempt_record first; /* most trails have no more */
    struct relay_actions *out;
    unsigned char marks[]; /* by place */
};

static inline const struct link_conf *relay_link(const struct relay *r, size_t place)
{
    return r->order != NULL ? r->order[place] : &r->route->links[place];
}

static inline bool resume_is_going_on(const struct relay *r)
{
    return r->resume != NULL && r->resume->is_going_on;
}

/* trail.c */
void trail_init(struct relay *r, const struct relay_start *s);
struct attempt_record *trail_entry(const struct relay *r, uint16_t n); /* of this number, from 1 */
struct attempt_record *trail_add(struct relay *r, size_t place);       /* a new one: nothing known */
/* text: static. */
void trail_skip(struct relay *r, size_t place, enum outcome why, const char *text);
/* The attempt that is out is over: outcome, time, tokens, price. `failure`: NULL = none. */
void trail_close(struct relay *r, enum outcome o, const struct failure *failure, uint64_t now_us);
/* The decision of an entry: what it was is replaced. */
void trail_printf(struct relay *r, struct attempt_record *rec, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void trail_decide(struct relay *r, const char *step, const struct failure *f);
void trail_note(struct relay *r, uint16_t n, const char *words); /* more of them behind the decision of entry n */
/* At the end: how what was broken off is billed, behind its decision. */
void trail_tell_billing(struct relay *r);
/* An attempt that could not even be written becomes a skip. */
void trail_unstart(struct relay *r, const char *why);

/* answer.c: fills r->answer and returns the request's own outcome. */
enum outcome answer_failure(struct relay *r, const struct failure *f, const struct link_conf *link, uint64_t now_us);
enum outcome answer_exhausted(struct relay *r, uint64_t now_us);
enum outcome answer_drained(struct relay *r);

/* health.c: what the registry is told. Each settles the trial this request may hold. */
void health_fail(struct relay *r, const struct verdict *v, const struct failure *f, uint64_t now_us);
void health_owe(struct relay *r, const struct failure *f); /* counted later, if the retry does not come */
void health_pay(struct relay *r, uint64_t now_us);         /* it does not come */
void health_neutral(struct relay *r, uint64_t now_us);
void health_token(struct relay *r, uint64_t now_us);
void health_good(struct relay *r, uint64_t now_us);

/* next.c: which link now. */
struct pick {
    bool is_found, is_spent /* by max_attempts or deadline */;
    size_t place;
    struct trial trial;
};
struct pick next_pick(struct relay *r, uint64_t now_us);
/* Starts what was picked, with the skips on the way into the trail; false = there is nothing to start. */
bool next_go(struct relay *r, const struct pick *p, uint64_t now_us);
void next_same(struct relay *r, size_t place, bool is_fresh, uint64_t now_us);
/* The pause is over: true = started again; false = the target was opened or taken meanwhile. */
bool next_after_wait(struct relay *r, uint64_t now_us);
size_t next_n_candidates(const struct relay *r);

/* hedge.c: two attempts out. */
bool hedge_is_out(const struct relay *r);
/* What is beside becomes what the event is about, and the other way round. */
void hedge_swap(struct relay *r);
/* An attempt was started on a new link: when is it late enough for another one? */
void hedge_plan(struct relay *r, uint64_t now_us);
/* It is: starts the next link beside it, if there is one and the caps allow it. */
void hedge_start(struct relay *r, uint64_t now_us);
/* The one that the event is about came first: the other one lost. */
void hedge_settle_race(struct relay *r, uint64_t now_us);
/* The request ends: the one beside is closed with this word. */
void hedge_close(struct relay *r, enum outcome o, uint64_t now_us);

/* budget.c */
/* How long the attempt may take. `of_link`: what its link was granted before; NULL = it is the first. */
void budget_set(struct relay *r, struct attempt *a, const struct latency_grant *of_link);
/* The history is told: its first token came; it is over (after its record was closed, before its state is). */
void budget_token(struct relay *r, uint64_t now_us);
void budget_close(struct relay *r, uint64_t now_us);
void budget_settle(struct relay *r); /* the request is over */

/* resume.c */
void resume_init(struct relay *r);
void resume_see(struct relay *r, const struct event *ev); /* one that the client gets */
/* May a failure of this kind be gone on from (the attempt that is out serves)? */
bool resume_can(const struct relay *r, const struct verdict *v);
/* It broke off by `f`: from here on links are tried to go on with it, within the deadline counted anew. */
void resume_begin(struct relay *r, const struct failure *f, uint64_t now_us);
/* How the link at `place` is asked. */
enum resume_way resume_ask(struct relay *r, size_t place);
/* The attempt that is out complained of the prefilled answer: the same link is asked without it. */
bool resume_is_refusal(const struct relay *r, const struct failure *f);

/* relay.c */
/* Made at the first failure. */
struct trouble *relay_trouble(struct relay *r);
/* May the link at this place be tried, health aside? */
struct candidate relay_candidate(const struct relay *r, size_t place);
/* The call; where it was let go, what is on record of it, in *room. */
const struct call *relay_call(const struct relay *r, struct call *room);
/* The link speaks the client's dialect. */
bool relay_speaks(const struct relay *r, const struct link_conf *link);
struct relay_action *relay_act(struct relay *r, enum relay_action_kind kind);
void relay_move(struct relay *r, enum request_state to);
/* The attempt that the event is about ends here. */
void relay_cancel(struct relay *r, enum outcome o, const struct failure *f, uint64_t now_us);

#endif
