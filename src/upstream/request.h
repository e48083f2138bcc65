/* The head of a request to a provider. */
#ifndef RM_UPSTREAM_REQUEST_H
#define RM_UPSTREAM_REQUEST_H

#include "upstream/upstream.h"

/* Appends the whole head. The provider's configured headers replace ours of the same name, but for those that frame the
 * message. */
void request_put_head(const struct exchange_spec *spec, const struct dialect *target, struct buf *out);

#endif
