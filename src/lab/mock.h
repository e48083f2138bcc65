/* Pretend providers on one loop: each listens on its own address, speaks one dialect, and fails as it is told. They
 * write bytes straight to the stream, because most faults are no well-formed HTTP.
 *
 * Orders, on each provider's own port: POST /_mock/fault, POST /_mock/reset, GET /_mock/log, GET /_mock/state; with
 * {"provider": PORT or NAME} a provider steers another one, whose listener may be closed (docs/mock.md). */
#ifndef RM_LAB_MOCK_H
#define RM_LAB_MOCK_H

#include "base/err.h"
#include "lab/mock_conf.h"
#include "loop/loop.h"

struct mock;

struct mock *mock_new(struct loop *l);
/* Opens one more provider; strings are copied. *port: the real one. message: for people. */
enum err mock_add(struct mock *m, const struct mock_conf *c, uint16_t *port, char *message,
                  size_t message_cap) RM_MUST_USE;
/* Closes everything; takes turns of the loop until it is gone. Not from inside the loop. */
void mock_free(struct mock *m);

#endif
