/* What a pretend provider saw: the last requests, for tests and people. Credentials are hidden. */
#ifndef RM_LAB_MOCK_LOG_H
#define RM_LAB_MOCK_LOG_H

#include "base/buf.h"
#include "http/head.h"

enum { MOCK_LOG_MAX = 1024 };

struct seen {
    uint64_t n; /* running number from 1; 0 = free */
    int64_t wall_ms;
    uint64_t arrived_us;
    char method[16], path[128], model[128], fault[32];
    struct buf headers; /* JSON object */
    size_t body_bytes;
    bool is_stream, is_answered; /* answered: the whole answer was handed to the kernel */
    unsigned status;
    int64_t hung_up_ms; /* since arrival; -1 = the client did not leave before the end */
};
struct mock_log {
    struct seen v[MOCK_LOG_MAX]; /* request n stands at n % MOCK_LOG_MAX */
    uint64_t n;
};

/* The entry of a new request; never NULL. Its oldest one is overwritten. */
struct seen *mock_log_add(struct mock_log *log, const struct head *head);
/* NULL when it was overwritten or cleared. */
struct seen *mock_log_find(struct mock_log *log, uint64_t n);
void mock_log_clear(struct mock_log *log);
/* A JSON array, oldest first. */
void mock_log_json(const struct mock_log *log, struct buf *out);

#endif
