/* Listening sockets. Two programs that both set SO_REUSEPORT share an address without a word, each getting half of the
 * connections. So the first bind is a plain one, which fails when anybody else listens there; only then are the shared
 * ones opened (between the two lies a moment in which another program could come first; it would then be told). */
#include "net/listen.h"

#include "net/address.h"
#include "net/stream_impl.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <unistd.h>

enum { BACKLOG = 4096, ACCEPT_TRIES = 16 };

static bool host_is_fine(struct bytes host)
{
    for (size_t i = 0; i < host.n; i++) {
        unsigned char c = (unsigned char)host.p[i];
        if (c <= ' ' || c >= 0x7f || c == '/' || c == '[' || c == ']')
            return false;
    }
    return host.n > 0 && host.n < sizeof((struct listen_address *)0)->host;
}

/* Splits "host:port" and "[v6]:port". */
static bool split(struct bytes text, struct bytes *host, struct bytes *port)
{
    if (text.n > 0 && text.p[0] == '[') {
        size_t close_at = bytes_find_byte(text, ']');
        if (close_at == SIZE_MAX || close_at + 1 >= text.n || text.p[close_at + 1] != ':')
            return false;
        *host = bytes_slice(text, 1, close_at);
        *port = bytes_slice(text, close_at + 2, text.n);
        return bytes_find_byte(*host, ':') != SIZE_MAX;
    }
    size_t colon = bytes_find_byte(text, ':');
    if (colon == SIZE_MAX)
        return false;
    *host = bytes_slice(text, 0, colon);
    *port = bytes_slice(text, colon + 1, text.n);
    return true;
}

bool listen_address_parse(struct bytes text, struct listen_address *out)
{
    struct bytes host, port;
    uint64_t number;
    if (!split(text, &host, &port) || !host_is_fine(host))
        return false;
    if (!bytes_to_u64(port, &number) || number > UINT16_MAX)
        return false;
    *out = (struct listen_address){.port = (uint16_t)number};
    memcpy(out->host, host.p, host.n);
    struct address a;
    bool is_v6 = bytes_find_byte(host, ':') != SIZE_MAX;
    return !is_v6 || address_parse(out->host, &a);
}

bool listen_address_is_loopback(const struct listen_address *a)
{
    struct address ip;
    if (bytes_eq_nocase(bytes_of(a->host), BYTES("localhost")))
        return true;
    if (!address_parse(a->host, &ip))
        return false;
    if (ip.sa.ss_family == AF_INET)
        return ntohl(((struct sockaddr_in *)(void *)&ip.sa)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)(void *)&ip.sa)->sin6_addr);
}

/* Blocks: only at start. localhost needs no resolver: it is IPv4's loopback. */
static bool find_address(const struct listen_address *a, struct address *out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    if (address_parse(a->host, out))
        return true;
    if (bytes_eq_nocase(bytes_of(a->host), BYTES("localhost")))
        return address_parse("127.0.0.1", out);
    if (getaddrinfo(a->host, NULL, &hints, &found) != 0)
        return false;
    bool ok = address_from(found->ai_addr, out);
    freeaddrinfo(found);
    return ok;
}

/* A bound descriptor, or -1 with errno. */
static int bind_one(const struct address *at, bool is_shared)
{
    int yes = 1;
    int fd = socket(at->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    bool ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0;
    if (is_shared)
        ok = ok && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) == 0;
    if (ok && bind(fd, (const struct sockaddr *)&at->sa, at->len) == 0)
        return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static bool read_port(int fd, struct address *at)
{
    struct address real = {.len = sizeof real.sa};
    if (getsockname(fd, (struct sockaddr *)&real.sa, &real.len) != 0)
        return false;
    address_set_port(at, address_port(&real));
    return true;
}

/* Opens all n; on failure none is left and errno says why. */
static bool open_all(struct address *at, int n, int *fds)
{
    int n_open = 0, e;
    int first = bind_one(at, false);
    if (first < 0)
        return false;
    if (!read_port(first, at) || listen(first, BACKLOG) != 0)
        goto fail;
    if (n == 1) {
        fds[0] = first;
        return true;
    }
    close(first);
    first = -1;
    for (; n_open < n; n_open++) {
        fds[n_open] = bind_one(at, true);
        if (fds[n_open] < 0)
            goto fail;
        if (listen(fds[n_open], BACKLOG) != 0) {
            n_open++;
            goto fail;
        }
    }
    return true;
fail:
    e = errno;
    if (first >= 0)
        close(first);
    for (int i = 0; i < n_open; i++)
        close(fds[i]);
    errno = e;
    return false;
}

enum err listen_open(struct listen_address *a, int n, int *fds, char *message, size_t message_cap)
{
    struct address at;
    char text[ADDRESS_TEXT_BYTES];
    RM_ASSERT(n >= 1);
    if (!find_address(a, &at)) {
        snprintf(message, message_cap, "cannot listen on %s:%u: the host name has no address", a->host, a->port);
        return ERR_NOT_FOUND;
    }
    address_set_port(&at, a->port);
    if (open_all(&at, n, fds)) {
        a->port = address_port(&at);
        return ERR_OK;
    }
    int e = errno;
    address_text(&at, text, sizeof text);
    const char *why = e == EADDRINUSE ? "the address is in use" : stream_errno_text(e);
    snprintf(message, message_cap, "cannot listen on %s: %s", text, why);
    return e == EADDRINUSE ? ERR_BUSY : ERR_IO;
}

int listen_accept(int fd)
{
    for (int i = 0; i < ACCEPT_TRIES; i++) {
        int got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (got >= 0)
            return got;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return -1;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            return -2;
        /* Else that one connection has died in the queue: the next one. */
    }
    return -1;
}
