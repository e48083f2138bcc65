/* One try of one link: where it stands, and when its time is up. The clock is handed in. */
#ifndef RM_RELAY_ATTEMPT_H
#define RM_RELAY_ATTEMPT_H

#include "base/sm.h"
#include "config/config.h"
#include "model/record.h"
#include "model/usage.h"
#include "plan/latency.h"

enum attempt_state {
    ATTEMPT_STARTED,   /* asked for */
    ATTEMPT_CONNECTED, /* a connection is there */
    ATTEMPT_ANSWERING, /* its head came, no token yet */
    ATTEMPT_FLOWING,   /* its first token came; the budget is met */
    ATTEMPT_SERVING,   /* committed */
    ATTEMPT_CLOSED
};

struct attempt {
    struct attempt_record *record; /* tokens: as reported so far; service: as the answer told, else as asked for */
    const struct link_conf *link;
    uint16_t n;
    uint16_t place; /* in the request's chain */
    struct sm sm;
    uint64_t start_us;          /* monotonic */
    uint64_t budget_us;         /* length that rules it: first token, or the whole answer */
    uint64_t own_budget_us;     /* the link's own, without a shorter one of the client */
    struct latency_grant grant; /* of the link, shared by retries; us 0 = no history is kept of it */
    uint64_t budget_end_us;     /* of the link, shared by retries; with is_stream false of this attempt */
    bool is_stream;             /* asked for as a stream */
    bool is_own_budget;         /* budget_us is the link's own, not one shortened by the client */
    bool is_overtime;           /* past its budget with nobody else to ask: its late answer is neutral */
    bool is_sent;
    bool is_unacked;      /* reused, and the peer's kernel acknowledged nothing: too late means it never got there */
    uint8_t quirks;       /* it was written with these */
    const char *adjusted; /* what was changed for it; NULL = nothing */
    uint64_t head_us;     /* monotonic; 0 = none */
    uint64_t idle_due_us; /* 0 = does not run */
    uint64_t paused_us;   /* since then we are not reading; 0 = reading */
    uint64_t text_bytes;  /* generated text seen so far */
    int64_t wall_ms;      /* when it began; 0 = not told: prices without a span hold */
};

/* The zero time of the record is `zero_us`. */
void attempt_init(struct attempt *a, const struct link_conf *link, struct attempt_record *record, uint64_t now_us,
                  uint64_t zero_us);
bool attempt_is_open(const struct attempt *a);
/* A token came, so the budget is met. */
bool attempt_has_token(const struct attempt *a);
/* … and events are awaited, none of them too late by now. */
static inline bool attempt_is_flowing(const struct attempt *a, uint64_t now_us)
{
    return (a->sm.state == ATTEMPT_FLOWING || a->sm.state == ATTEMPT_SERVING) && a->paused_us == 0 &&
           now_us <= a->idle_due_us;
}
void attempt_move(struct attempt *a, enum attempt_state to);
/* Its reused connection died before any response byte; it goes on with a fresh one. */
void attempt_replay(struct attempt *a);
/* An event of its stream: the idle time starts anew (after the first token). */
void attempt_feed(struct attempt *a, uint64_t now_us);
/* Idle time stands still while we are not reading. Harmless twice. */
void attempt_pause(struct attempt *a, uint64_t now_us);
void attempt_resume(struct attempt *a, uint64_t now_us);
/* When its budget or its idle time ends; 0 = neither runs. */
uint64_t attempt_due_us(const struct attempt *a);
/* The word for a budget that ended now. */
enum outcome attempt_late_word(const struct attempt *a);

#endif
