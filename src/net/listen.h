/* Listening sockets: opened once by main, SO_REUSEPORT, one per core, kept to the end. */
#ifndef RM_NET_LISTEN_H
#define RM_NET_LISTEN_H

#include "base/bytes.h"
#include "base/err.h"

#include <stdint.h>

/* "127.0.0.1:8080", "[::1]:8080", "localhost:8080", "0.0.0.0:8080". Port 0 asks the kernel for one. */
struct listen_address {
    char host[128];
    uint16_t port;
};
bool listen_address_parse(struct bytes text, struct listen_address *out);
/* True for 127.0.0.0/8, ::1 and localhost. */
bool listen_address_is_loopback(const struct listen_address *a);
/* Opens n descriptors on the same address. A plain bind (without SO_REUSEPORT) is tried first, so that an address in
 * use is ERR_BUSY and not a silent share. a->port is updated when it was 0. message: what failed, for people. */
enum err listen_open(struct listen_address *a, int n, int *fds, char *message, size_t message_cap) RM_MUST_USE;
/* One accepted descriptor, non-blocking and close-on-exec; -1 = none waiting; -2 = out of descriptors. */
int listen_accept(int fd);

#endif
