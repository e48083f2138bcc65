/* Addresses as they stand in the file: a provider's base_url and a listener's address:port. Messages never repeat a
 * URL: it may hold a password or a key. */
#ifndef RM_CONFIG_ADDRESS_H
#define RM_CONFIG_ADDRESS_H

#include "config/config.h"

/* NULL when fine, else what is wrong. The texts of *out live in the arena. */
const char *address_parse_url(struct bytes text, struct arena *a, struct url *out);
/* "127.0.0.1:8080", "[::1]:8080", "localhost:0". *is_loopback is set when fine. */
const char *address_parse_listen(struct bytes text, bool *is_loopback);
/* A literal of 127.0.0.0/8, ::1, or localhost. */
bool address_is_loopback(struct bytes host);

#endif
