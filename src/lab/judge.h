/* The sixteen scenarios of Failover Bench (methodology v0.1; facts of that test, words of ours) and their verdicts:
 * what a client saw and what the provider saw go in, a verdict with its reasons comes out. Pure. */
#ifndef RM_LAB_JUDGE_H
#define RM_LAB_JUDGE_H

#include "base/bytes.h"

enum { JUDGE_SCENARIOS = 16, JUDGE_CHECKS_MAX = 5, JUDGE_TEXT_BYTES = 160 };

enum judge_kind {
    JUDGE_NO_CHECK,
    JUDGE_NO_HANG,            /* it ended within the scenario's time */
    JUDGE_ATTEMPTS_MIN,       /* on the primary; value: how many */
    JUDGE_ATTEMPTS_MAX,       /* the same */
    JUDGE_ATTEMPTS_ARE,       /* the same */
    JUDGE_ATTEMPTS_WITHIN,    /* at most `value` in the first `ms` after the first one */
    JUDGE_GAP_MIN,            /* from the first attempt on the primary to the second; a missing second one fails */
    JUDGE_WALL_MAX,           /* the call took at most `ms` */
    JUDGE_NOT_TRUNCATED,      /* no part of an answer was presented as a whole one */
    JUDGE_COMPLETE,           /* the sixty words, exactly */
    JUDGE_ALIVE,              /* a healthy call after it succeeded */
    JUDGE_USAGE,              /* the answer told its tokens; not applicable without an answer */
    JUDGE_MODEL_IS_FALLBACK,  /* the answer names who gave it; not applicable when the fallback was not used */
    JUDGE_FALLBACK_USED,      /* at least one attempt reached it */
    JUDGE_NO_PREFILL_MASKING, /* no error at the end while the fallback had refused a prefill */
    JUDGE_SEQ_ANSWERED,       /* every call of the outage was answered whole */
    JUDGE_SEQ_RECOVERED,      /* the primary answered again within `ms` of its recovery */
    JUDGE_SEQ_PROBES          /* not more attempts on the primary than calls while it was down */
};

struct judge_check {
    const char *id; /* NULL ends a list */
    enum judge_kind kind;
    unsigned value, ms;
    bool is_advisory;      /* its failure makes a pass partial */
    bool is_informational; /* never counts */
    bool needs_fallback;   /* not applicable to a system that declares none */
};

struct judge_scenario {
    const char *id, *title, *model, *fallback;
    const char *fault; /* what the provider does, in words */
    unsigned max_wall_ms;
    bool wants_error;                      /* S13: the right outcome is a clean error */
    unsigned n_calls, every_ms, outage_ms; /* S15; else 1, 0, 0 */
    struct judge_check checks[JUDGE_CHECKS_MAX];
};

extern const struct judge_scenario judge_scenarios[JUDGE_SCENARIOS];
/* "S07", any case; NULL when there is none. */
const struct judge_scenario *judge_find(struct bytes id);

/* One call as a client saw it. The zero value: nothing came and the connection ended well. */
struct judge_call {
    bool is_hang;                 /* it was given up at the time limit */
    bool is_broken;               /* no connection, no response, or its body did not end well; `error` says how */
    unsigned status;              /* 0 = no head came */
    bool has_error;               /* an error event in the stream, or an error as the body of a 2xx */
    char error[JUDGE_TEXT_BYTES]; /* what the client was told, or what broke */
    bool has_finish;              /* a finish reason (other than "error") came */
    bool has_done;                /* [DONE] came */
    unsigned n_bad_events;        /* events whose data was no JSON: a client passes over them */
    unsigned n_words;             /* of the text */
    bool is_text_right;           /* it is the sixty words, after normalisation of blanks */
    char model[64];               /* as the answer tells it; "" = not told */
    bool has_usage;
    uint64_t sent_us;          /* since the scenario began */
    uint64_t wall_us, ttft_us; /* since it was sent; ttft 0 = no text came */
};

enum judge_outcome {
    JUDGE_ANSWERED,  /* the whole text, and a good end */
    JUDGE_ERROR,     /* an error that no client can take for an end */
    JUDGE_TRUNCATED, /* something else than the whole text, presented as success */
    JUDGE_MASKED,    /* an error event, and then (or before) what says that all is well */
    JUDGE_HANG
};
enum judge_outcome judge_outcome(const struct judge_call *c);
const char *judge_outcome_word(enum judge_outcome o);

/* An attempt as the provider saw it. */
struct judge_attempt {
    int64_t at_ms; /* any clock, the same for all */
    unsigned status;
};

struct judge_seen {
    const struct judge_call *calls;
    size_t n_calls; /* at least one */
    const struct judge_attempt *primary;
    size_t n_primary; /* in order of time */
    size_t n_fallback, n_prefill_refused;
    bool is_alive;     /* the healthy call afterwards */
    bool has_fallback; /* the system under test says that it has one */
    unsigned speed;    /* all limits are divided by it; 1 = as published */
};

enum judge_verdict { JUDGE_PASS, JUDGE_PARTIAL, JUDGE_SAFE, JUDGE_FAIL, JUDGE_VERDICTS };
const char *judge_verdict_word(enum judge_verdict v);

enum judge_status { JUDGE_GOOD, JUDGE_BAD, JUDGE_NOTED /* bad, but informational */, JUDGE_NOT_APPLICABLE };
struct judge_checked {
    const struct judge_check *check;
    enum judge_status status;
    char detail[JUDGE_TEXT_BYTES]; /* for people */
};
struct judge_result {
    enum judge_verdict verdict;
    enum judge_outcome outcome; /* of all calls: the worst one */
    char reason[3 * JUDGE_TEXT_BYTES];
    struct judge_checked checks[JUDGE_CHECKS_MAX];
    size_t n_checks;
};
void judge(const struct judge_scenario *s, const struct judge_seen *seen, struct judge_result *out);

#endif
