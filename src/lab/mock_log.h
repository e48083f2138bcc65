/* What a pretend provider saw: the last requests, for tests and people, and how often each model was asked for.
 * Credentials are hidden. */
#ifndef RM_LAB_MOCK_LOG_H
#define RM_LAB_MOCK_LOG_H

#include "base/buf.h"
#include "http/head.h"

enum { MOCK_LOG_MAX = 1024, MOCK_MODELS_MAX = 256, MOCK_MODEL_BYTES = 128 };

struct seen {
    uint64_t serial; /* of all since the start, resets or not; 0 = free */
    uint64_t n;      /* running number since the last reset, from 1 */
    int64_t wall_ms;
    uint64_t arrived_us;
    uint64_t at_ms; /* of its arrival, since start or reset */
    char method[16], path[128], model[MOCK_MODEL_BYTES], user[32], fault[32];
    uint64_t attempt;   /* number among the requests for this model since start or reset; 0 = no chat */
    struct buf headers; /* JSON object */
    size_t body_bytes;
    int64_t prompt_tokens, cache_read, cache_write;
    bool is_stream, is_answered; /* answered: the whole answer was handed to the kernel */
    unsigned status;             /* 0 = no head was sent */
    int64_t hung_up_ms;          /* since arrival; -1 = the client did not leave before the end */
};
struct mock_log {
    struct seen v[MOCK_LOG_MAX]; /* request number s stands at s % MOCK_LOG_MAX */
    uint64_t serial, n;
    struct {
        char model[MOCK_MODEL_BYTES];
        uint64_t n;
    } models[MOCK_MODELS_MAX]; /* the last one counts all for which there is no place */
    size_t n_models;
};

/* The entry of a new request; never NULL. Its oldest one is overwritten. */
struct seen *mock_log_add(struct mock_log *log, const struct head *head);
/* NULL when it was overwritten or cleared. */
struct seen *mock_log_find(struct mock_log *log, uint64_t serial);
/* Counts one more request for this model; which one it is. */
uint64_t mock_log_attempt(struct mock_log *log, struct bytes model);
/* How many entries since the last reset are no longer there. */
uint64_t mock_log_overwritten(const struct mock_log *log);
/* A reset: numbers begin at 1 again. */
void mock_log_clear(struct mock_log *log);
/* A JSON array of the entries whose n is above `after`, oldest first. */
void mock_log_json(const struct mock_log *log, const char *provider, uint64_t after, struct buf *out);

#endif
