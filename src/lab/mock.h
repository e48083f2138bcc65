/* Pretend providers on one loop: each listens on its own address, speaks one dialect, and fails as it is told. They
 * write bytes straight to the stream, because most faults are no well-formed HTTP.
 *
 * Control, on each provider's own port: POST /_mock/fault, GET /_mock/log, POST /_mock/reset; with {"provider": PORT} a
 * provider steers another one, whose listener may be closed. */
#ifndef RM_LAB_MOCK_H
#define RM_LAB_MOCK_H

#include "base/err.h"
#include "lab/fault.h"
#include "lab/shape.h"
#include "loop/loop.h"

struct mock;

struct mock_conf {
    const char *listen; /* "127.0.0.1:9101"; port 0 = any */
    enum shape_dialect dialect;
    const char *model; /* told in answers; "" = as asked */
    const char *key;   /* "" = any is taken */
    const char *words;
    uint32_t ttft_ms, gap_ms;
    int64_t tokens;
    bool no_usage;
    struct fault faults[FAULT_LIST_MAX]; /* from the start; the last one for good */
    size_t n_faults;
};

/* Tokens 16, 40 ms to the first, 10 ms between them, a text of our own. */
void mock_conf_init(struct mock_conf *c);
struct mock *mock_new(struct loop *l);
/* Opens one more provider; strings are copied. *port: the real one. message: for people. */
enum err mock_add(struct mock *m, const struct mock_conf *c, uint16_t *port, char *message,
                  size_t message_cap) RM_MUST_USE;
/* Closes everything; takes turns of the loop until it is gone. Not from inside the loop. */
void mock_free(struct mock *m);

#endif
