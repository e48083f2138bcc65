/* IP addresses as text and back. */
#ifndef RM_NET_ADDRESS_H
#define RM_NET_ADDRESS_H

#include "net/resolver.h"

#include <stdbool.h>

/* A literal IPv4 or IPv6 address (without brackets); port 0. False when it is a name. */
bool address_parse(const char *host, struct address *out);
/* Copies a socket address of a known family; false for another family. */
bool address_from(const struct sockaddr *sa, struct address *out);
void address_set_port(struct address *a, uint16_t port);
uint16_t address_port(const struct address *a);
/* "127.0.0.1:80", "[::1]:80"; "?" when it is neither. */
enum { ADDRESS_TEXT_BYTES = 64 };
void address_text(const struct address *a, char *out, size_t cap);

#endif
