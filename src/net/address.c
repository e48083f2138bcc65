/* Both families side by side, so that nobody else has to look into a sockaddr. */
#include "net/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static struct sockaddr_in *v4(const struct address *a)
{
    return (struct sockaddr_in *)(void *)(uintptr_t)&a->sa;
}

static struct sockaddr_in6 *v6(const struct address *a)
{
    return (struct sockaddr_in6 *)(void *)(uintptr_t)&a->sa;
}

bool address_parse(const char *host, struct address *out)
{
    *out = (struct address){0};
    if (inet_pton(AF_INET, host, &v4(out)->sin_addr) == 1) {
        v4(out)->sin_family = AF_INET;
        out->len = sizeof(struct sockaddr_in);
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6(out)->sin6_addr) == 1) {
        v6(out)->sin6_family = AF_INET6;
        out->len = sizeof(struct sockaddr_in6);
        return true;
    }
    return false;
}

bool address_from(const struct sockaddr *sa, struct address *out)
{
    *out = (struct address){0};
    if (sa->sa_family == AF_INET)
        out->len = sizeof(struct sockaddr_in);
    else if (sa->sa_family == AF_INET6)
        out->len = sizeof(struct sockaddr_in6);
    else
        return false;
    memcpy(&out->sa, sa, out->len);
    return true;
}

void address_set_port(struct address *a, uint16_t port)
{
    if (a->sa.ss_family == AF_INET)
        v4(a)->sin_port = htons(port);
    else
        v6(a)->sin6_port = htons(port);
}

uint16_t address_port(const struct address *a)
{
    if (a->sa.ss_family == AF_INET)
        return ntohs(v4(a)->sin_port);
    return a->sa.ss_family == AF_INET6 ? ntohs(v6(a)->sin6_port) : 0;
}

void address_text(const struct address *a, char *out, size_t cap)
{
    char ip[INET6_ADDRSTRLEN] = "?";
    if (a->sa.ss_family == AF_INET) {
        inet_ntop(AF_INET, &v4(a)->sin_addr, ip, sizeof ip);
        snprintf(out, cap, "%s:%u", ip, address_port(a));
    } else if (a->sa.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6(a)->sin6_addr, ip, sizeof ip);
        snprintf(out, cap, "[%s]:%u", ip, address_port(a));
    } else {
        snprintf(out, cap, "?");
    }
}
