/* The faults that the pretend provider can be told to have, as words with a few numbers. Pure. */
#ifndef RM_LAB_FAULT_H
#define RM_LAB_FAULT_H

#include "base/bytes.h"

enum fault_kind {
    FAULT_NONE,
    FAULT_STATUS,            /* an HTTP error in the dialect's shape */
    FAULT_QUOTA,             /* our account is empty, as each vendor says it */
    FAULT_CONTEXT,           /* the prompt is too long */
    FAULT_REFUSE,            /* the listener is closed, and every connection with it */
    FAULT_RESET,             /* RST before any byte */
    FAULT_HANG,              /* no byte at all */
    FAULT_HANG_AFTER_HEAD,   /* the head, then nothing */
    FAULT_HANG_AFTER_ROLE,   /* head and role chunk (message_start), no token */
    FAULT_ERROR_IN_200,      /* 200, and the first event is an error */
    FAULT_ERROR_AFTER_TOKEN, /* an error event after `after` words */
    FAULT_CUT,               /* FIN after `after` words, in the middle of the HTTP body */
    FAULT_END_EARLY,         /* the HTTP body ends well after `after` words, without finish and terminal event */
    FAULT_RST_AFTER,         /* RST after `after` words */
    FAULT_STALL,             /* silence after `after` words */
    FAULT_MALFORMED,         /* an event that is no JSON, after `after` words; then it goes on */
    FAULT_NO_DONE,           /* complete but for the terminal event */
    FAULT_HTML,              /* 200 with a web page */
    FAULT_EMPTY,             /* 200 without a body */
    FAULT_SLOW,              /* ttft_ms, 5 s when not told */
    FAULT_N_KINDS
};

struct fault {
    enum fault_kind kind;
    unsigned status;        /* STATUS */
    int64_t retry_after_ms; /* sent as retry-after; -1 = none */
    int64_t after;          /* words before it happens; -1 = the kind's own (3; MALFORMED 0) */
    int64_t ttft_ms;        /* -1 = as configured */
    int64_t times;          /* requests that have it; -1 = until it is taken away */
};

enum { FAULTS_MAX = 32 };

/* "503", "429:2" (with retry-after 2 s), "cut", "cut:5" (after 5 words), "slow:800" (first token after 800 ms), "ok".
 */
bool fault_parse(struct bytes word, struct fault *out);
/* A list with commas; each for one request, the last one for good. False: *bad is the word that is none. */
bool fault_parse_list(struct bytes words, struct fault *out, size_t *n, struct bytes *bad);
const char *fault_word(const struct fault *f);
int64_t fault_after(const struct fault *f);
/* All words, for --help, separated by blanks. */
const char *fault_words(void);

#endif
