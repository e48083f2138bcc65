/* A small HTTP client that waits: one request after the other, on a loop of its own. For the demo and for tools; the
 * gateway itself never waits. */
#ifndef RM_LAB_CALLER_H
#define RM_LAB_CALLER_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fields.h"

struct caller;

struct caller_ask {
    const char *host; /* name or literal */
    uint16_t port;
    const char *method; /* "GET", "POST" */
    const char *path;
    struct bytes body;   /* JSON; n 0 = none */
    uint64_t timeout_us; /* whole exchange */
    void (*on_body)(struct bytes part, uint64_t at_us,
                    void *arg); /* as it comes; may be NULL. at_us: since the start */
    void *arg;
};

struct caller_answer {
    unsigned status;
    struct fields fields;             /* in the arena */
    struct bytes body;                /* in the arena */
    uint64_t first_body_us, total_us; /* since the start; 0 = none came */
};

struct caller *caller_new(void);
void caller_free(struct caller *c);
/* ERR_OK: a whole answer came (any status). Else *why says what failed. Copies live in the arena. */
enum err caller_do(struct caller *c, const struct caller_ask *ask, struct arena *a, struct caller_answer *out,
                   const char **why) RM_MUST_USE;

#endif
