/* What is remembered of a request: the object of DESIGN 4 ("A request, read back"). Filled by relay/, shown by front/
 * (trail headers), kept by ledger/. Texts are NUL-terminated and outlive the record's use: config or arena. */
#ifndef RM_MODEL_RECORD_H
#define RM_MODEL_RECORD_H

#include "base/bytes.h"
#include "model/money.h"
#include "model/outcome.h"
#include "model/prompt.h"
#include "model/usage.h"

enum attempt_kind { ATTEMPT_CLIENT, ATTEMPT_KEEPALIVE, ATTEMPT_HEDGE };
/* Was the provider's prompt cache asked for? */
enum cache_mark { CACHE_NOT_ASKED, CACHE_ASKED, CACHE_WITHHELD };
enum tokens_from { TOKENS_UNBILLED, TOKENS_ESTIMATED, TOKENS_REPORTED };
/* Of texts with their end: a class of service, a provider's request id, a decision. */
enum { SERVICE_BYTES = 24, PROVIDER_ID_BYTES = 64, DECISION_BYTES = 160 };

/* Times are microseconds from the request's start; -1 = did not happen. */
struct attempt_record {
    uint16_t n;      /* 1, 2, … in order of the trail, skips included */
    uint16_t link;   /* position in the route's chain, from 0 */
    uint16_t status; /* 0 = none */
    bool in_stream;
    bool is_started;       /* false for skips: no time */
    bool is_served;        /* the client saw this one */
    bool is_service_told;  /* the answer said its class of service; else that is what was asked for */
    bool is_price_standin; /* the class has no rates of its own: priced at the standard ones */
    enum attempt_kind kind;
    enum outcome outcome;
    enum cache_mark cache_mark;
    enum tokens_from tokens_from;
    const char *provider, *model;
    int64_t start_us, connect_us /* -1 = reused connection */, first_byte_us, ttft_us, total_us;
    struct usage tokens;         /* all members >= 0 once finished */
    const char *price_version;   /* NULL = no known price */
    int64_t cost_nusd;           /* NUSD_UNKNOWN without a price */
    int64_t waste_nusd;          /* what of it the client never saw */
    char service[SERVICE_BYTES]; /* class of service, in the words of price books; "" = nobody said, the standard one is
                                    taken */
    int64_t retry_after_ms;      /* provider's hint; -1 = none */
    const char *provider_request_id; /* NULL or "" = none told */
    const char *abort_words; /* how it is billed although no whole answer came; NULL = nothing was to be decided. Ends
                                up behind the decision. Static */
    const char *decision;    /* why the next step was taken, in words; NULL or "" = nothing was to be decided */
};

/* Texts that a record has of the link that serves it, as they are packed (ledger/pack.h): made once, with the snapshot.
 */
struct record_names {
    struct bytes text;                                /* each with its NUL; n 0 = not made */
    uint16_t n_route, n_dialect, n_provider, n_model; /* of each, in this order */
};

struct request_record {
    uint64_t id; /* shown as req_… */
    int64_t started_wall_ms;
    const char *key;   /* name of the client key, "" = none */
    const char *route; /* as the client asked */
    const char *dialect;
    const char *provider, *model;     /* serving; NULL = none */
    const struct record_names *names; /* route, dialect, provider and model once more; NULL = not at hand */
    int64_t ttft_us, total_us, gateway_us;
    int64_t prompt_bytes, max_tokens /* -1 = not given */;
    const char *effort; /* "" = not given */
    uint64_t prefix_hash;
    struct prompt_record prompt;
    int64_t cost_nusd, waste_nusd; /* sums; NUSD_UNKNOWN when a part is unknown */
    const char *adjusted;          /* "" = nothing */
    const char *trace_id;          /* "" = none */
    struct attempt_record *attempts;
    uint16_t n_attempts; /* entries in attempts, skips included */
    uint16_t n_started;  /* x-ringmain-attempts */
    int16_t served_link; /* -1 = none */
    uint16_t status;     /* sent to the client; 0 = nothing was sent */
    enum outcome outcome;
    bool is_stream;
};

/* One attempt in so many is given half its budget more, to learn how the slow ones go on. An answer past a budget that
 * did not cut says so in its decision: "[watched, ]budget 2140 ms would have cut here[, for $0.000004280]". */
enum { BUDGET_WATCH_EVERY = 8 };
#define BUDGET_WATCHED_WORD "watched, "
#define BUDGET_LATE_WORDS "would have cut here"

const char *attempt_kind_word(enum attempt_kind k);
const char *tokens_from_word(enum tokens_from t);
/* Of is_price_standin. */
const char *price_certainty_word(bool is_standin);

#endif
