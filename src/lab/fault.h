/* The faults that the pretend provider can be told to have, as words with a few numbers. Pure. */
#ifndef RM_LAB_FAULT_H
#define RM_LAB_FAULT_H

#include "base/bytes.h"

enum fault_kind {
    FAULT_NONE,
    FAULT_STATUS,            /* an HTTP error in the dialect's shape */
    FAULT_QUOTA,             /* our account is empty, as each vendor says it */
    FAULT_CONTEXT,           /* the prompt is too long */
    FAULT_POLICY,            /* 400: what was asked for is against the vendor's rules */
    FAULT_REFUSE,            /* the listener is closed, and every connection with it */
    FAULT_DEAF,              /* connections are taken and nothing is read from them: with TLS not even its greeting */
    FAULT_RESET,             /* RST before any byte */
    FAULT_RESET_AFTER_HEAD,  /* the head, then RST */
    FAULT_HANG,              /* no byte at all, for for_ms */
    FAULT_HANG_AFTER_HEAD,   /* the head, then nothing */
    FAULT_HANG_AFTER_ROLE,   /* head and role chunk (message_start), no token */
    FAULT_ERROR_IN_200,      /* 200, and the first event is an error */
    FAULT_ERROR_AFTER_TOKEN, /* an error event after `after` words */
    FAULT_CUT,               /* FIN after `after` words, in the middle of the HTTP body */
    FAULT_END_EARLY,         /* the HTTP body ends well after `after` words, without finish and terminal event */
    FAULT_RST_AFTER,         /* RST after `after` words */
    FAULT_STALL,             /* silence of for_ms after `after` words, then FIN */
    FAULT_MALFORMED,         /* an event that is no JSON, after `after` words; then it goes on */
    FAULT_NO_DONE,           /* complete but for the terminal event */
    FAULT_NO_LAST_CHUNK,     /* complete with its terminal event, but FIN in place of the last chunk */
    FAULT_HTML,              /* a web page; 200 when `status` is 0 */
    FAULT_EMPTY,             /* 200 without a body */
    FAULT_WRONG_TYPE,        /* the right bytes as text/plain */
    FAULT_SLOW,              /* ttft_ms, 5 s when not told */
    FAULT_SLOW_AFTER_HEAD,   /* the head at once, everything else after ttft_ms, 5 s when not told */
    FAULT_COMMENTS,          /* comments (and pings, where the dialect has them) between the events */
    FAULT_HUGE,              /* one event with `bytes` of text after `after` words, then it goes on */
    FAULT_SPLIT,             /* every write has at most `bytes`, one when not told */
    FAULT_DRIP,              /* one byte every for_ms, 10 when not told */
    FAULT_N_KINDS
};

struct fault {
    enum fault_kind kind;
    unsigned status;        /* STATUS, HTML */
    int64_t retry_after_ms; /* sent as retry-after; -1 = none */
    int64_t after;          /* words before it happens; -1 = the kind's own (3; MALFORMED and HUGE 0) */
    int64_t ttft_ms;        /* -1 = as configured */
    int64_t for_ms; /* HANG and STALL: silence, then FIN; DRIP: between two bytes; -1 = the kind's own (for ever) */
    int64_t bytes;  /* HUGE, SPLIT; -1 = the kind's own */
    int64_t times;  /* requests that have it; -1 = until it is taken away */
};

enum { FAULT_LIST_MAX = 32, FAULT_BYTES_MAX = 64 << 20 };

/* A word, and after colons its numbers: "503", "429:2" (with retry-after 2 s), "cut", "cut:5" (after 5 words),
 * "slow:800" (first token after 800 ms), "stall:20:30000" (after 20 words, for 30 s), "hang:500" (ms), "huge:BYTES",
 * "split:BYTES", "drip:MS", "html:502", "ok". */
bool fault_parse(struct bytes word, struct fault *out);
/* A list with commas; each for one request, the last one for good. False: *bad is the word that is none. */
bool fault_parse_list(struct bytes words, struct fault *out, size_t *n, struct bytes *bad);
const char *fault_word(const struct fault *f);
int64_t fault_after(const struct fault *f);
/* The words without their numbers, NULL at the end: to find the nearest one. */
const char *const *fault_names(void);
/* All words, for --help, separated by blanks. */
const char *fault_words(void);

#endif
