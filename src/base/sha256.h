/* SHA-256 (FIPS 180-4) of bytes at hand: for client keys and the admin secret, of which the configuration holds only
 * the hash. Not OpenSSL's, whose first use brings 2.5 MB of it into memory: too much for a gateway whose providers need
 * no TLS. Pure; the time taken depends on the length alone. */
#ifndef RM_BASE_SHA256_H
#define RM_BASE_SHA256_H

#include "base/bytes.h"

enum { SHA256_BYTES = 32 };

void sha256(struct bytes in, unsigned char out[SHA256_BYTES]);

#endif
