/* The head of a request to a provider. */
#ifndef RM_UPSTREAM_REQUEST_H
#define RM_UPSTREAM_REQUEST_H

#include "upstream/upstream.h"

/* What all requests to a provider have in common, written once. Holds its credential, as the provider's configuration
 * does, and reads nothing of it later. provider_conf.mould carries it; without one (NULL) every head is written anew.
 */
struct request_mould;
struct request_mould *request_mould_new(const struct provider_conf *p);
void request_mould_free(struct request_mould *m);

/* Appends the whole head. The provider's configured headers replace ours of the same name, but for those that frame the
 * message. */
void request_put_head(const struct exchange_spec *spec, struct buf *out);

#endif
