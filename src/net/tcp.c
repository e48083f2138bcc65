/* A stream over a TCP socket. The descriptor is registered once, both directions, edge-triggered: one system call per
 * read or write, none to change what we wait for.
 *
 * The trap in edge-triggered reading: bytes and the FIN behind them come as one edge. The owner stops at a short read,
 * so nothing would tell him of the FIN. The loop reports it (LOOP_HANGUP); we remember it and raise LOOP_READ again
 * after each short read until the end has been read. */
#include "net/tcp.h"

#include "base/mem.h"
#include "loop/kernel.h"
#include "net/address.h"
#include "net/stream_impl.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { KEEPALIVE_IDLE_S = 30, KEEPALIVE_INTERVAL_S = 10, KEEPALIVE_COUNT = 3, USER_TIMEOUT_MS = 30000 };
enum { VECTORS_MAX = 1024 /* IOV_MAX */ };

struct tcp {
    struct stream stream; /* first */
    struct watch watch;
    bool may_have_input; /* no edge has come since it was read dry: then nothing is there to look for */
    bool is_hung_up;     /* the peer's FIN or an error stands behind the unread bytes */
    bool is_dead;        /* reading failed; the kernel has forgotten it */
    bool is_cut;         /* writing failed; what the peer said before can still be read */
};

static struct tcp *tcp_of(const struct stream *s)
{
    return (struct tcp *)(void *)(uintptr_t)s;
}

static enum io fail(struct tcp *t, bool *mark, int e)
{
    *mark = true;
    t->stream.error = stream_errno_text(e);
    return IO_ERROR;
}

static bool is_again(int e)
{
    return e == EAGAIN || e == EWOULDBLOCK;
}

static __attribute__((noinline)) enum io read_failed(struct tcp *t, int e)
{
    if (!is_again(e))
        return fail(t, &t->is_dead, e);
    t->may_have_input = t->is_hung_up;
    return IO_AGAIN;
}

static enum io tcp_read(struct stream *s, void *buf, size_t cap, size_t *n)
{
    struct tcp *t = tcp_of(s);
    long got;
    if (t->is_dead)
        return IO_ERROR;
    do
        got = kernel_call(SYS_recvfrom, t->watch.fd, buf, (long)cap, 0);
    while (got == -EINTR);
    if (got < 0)
        return read_failed(t, (int)-got);
    if (got == 0)
        return t->is_cut ? IO_ERROR : IO_EOF; /* a reset that the failed write has used up looks like a FIN */
    *n = (size_t)got;
    if (*n == cap)
        return IO_OK;
    t->may_have_input = t->is_hung_up;
    if (t->is_hung_up)
        stream_raise(s, LOOP_READ);
    return IO_OK;
}

static __attribute__((noinline)) long put_vectors(struct tcp *t, const struct iovec *v, int n_v)
{
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)v,
                       .msg_iovlen = (size_t)(n_v < VECTORS_MAX ? n_v : VECTORS_MAX)};
    return kernel_call(SYS_sendmsg, t->watch.fd, &m, MSG_NOSIGNAL, 0);
}

/* One vector, as a chunk has, needs no message about it: 5 % of what the kernel does for a write. */
static inline long put_once(struct tcp *t, const struct iovec *v, int n_v)
{
    if (n_v > 1)
        return put_vectors(t, v, n_v);
    return kernel_call(SYS_sendto, t->watch.fd, v->iov_base, (long)v->iov_len, MSG_NOSIGNAL);
}

static enum io tcp_write(struct stream *s, const struct iovec *v, int n_v, size_t *n)
{
    struct tcp *t = tcp_of(s);
    long put;
    if (t->is_dead || t->is_cut)
        return IO_ERROR;
    do
        put = put_once(t, v, n_v);
    while (put == -EINTR);
    if (put < 0)
        return is_again((int)-put) ? IO_AGAIN : fail(t, &t->is_cut, (int)-put);
    *n = (size_t)put;
    if (n_v > VECTORS_MAX)
        stream_raise(s, LOOP_WRITE); /* short without a full socket: no edge would come */
    return IO_OK;
}

static void tcp_close(struct stream *s, bool reset)
{
    struct tcp *t = tcp_of(s);
    int fd = t->watch.fd;
    watch_del(s->loop, &t->watch);
    if (reset) {
        struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    close(fd);
}

static void tcp_shutdown(struct stream *s)
{
    shutdown(tcp_of(s)->watch.fd, SHUT_WR);
}

static size_t tcp_unacked(const struct stream *s)
{
    int n = 0;
    if (ioctl(tcp_of(s)->watch.fd, SIOCOUTQ, &n) != 0 || n < 0)
        return 0;
    return (size_t)n;
}

static bool tcp_is_stale(struct stream *s)
{
    char c;
    struct tcp *t = tcp_of(s);
    if (t->is_dead || t->is_cut || t->is_hung_up)
        return true;
    if (!t->may_have_input)
        return false;
    ssize_t n = recv(t->watch.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    t->may_have_input = n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static const struct stream_class tcp_class = {
    .read = tcp_read,
    .write = tcp_write,
    .close = tcp_close,
    .shutdown = tcp_shutdown,
    .unacked = tcp_unacked,
    .is_stale = tcp_is_stale,
};

static void on_ask(struct tcp *t)
{
    struct stream *s = &t->stream;
    if (!s->reads_ahead || s->fn == NULL || s->pending != 0 || t->is_hung_up)
        return;
    t->may_have_input = true;
    s->fn(s, LOOP_ASK, s->arg);
    t->watch.has_read = !t->may_have_input;
}

static void on_ready(struct watch *w, unsigned ready)
{
    struct tcp *t = RM_CONTAINER(w, struct tcp, watch);
    if (ready == LOOP_ASK) {
        on_ask(t);
        return;
    }
    if (ready & (LOOP_READ | LOOP_HANGUP)) {
        t->is_hung_up |= (ready & LOOP_HANGUP) != 0;
        t->may_have_input = true;
    }
    stream_dispatch(&t->stream, ready);
}

/* Socket options are wishes: a socket pair in a test has none of them. */
static void set_option(int fd, int level, int name, int value)
{
    int r = setsockopt(fd, level, name, &value, sizeof value);
    (void)r;
}

static void set_options(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
}

/* Takes fd; closes it on failure. */
static enum err wrap(struct loop *l, int fd, struct stream **out)
{
    struct tcp *t = mem_zalloc(sizeof *t);
    t->may_have_input = true;
    t->watch = (struct watch){.fn = on_ready, .fd = fd, .reads_ahead = true};
    if (watch_add(l, &t->watch) != ERR_OK) {
        mem_free(t);
        close(fd);
        return ERR_IO;
    }
    stream_init(&t->stream, &tcp_class, l);
    *out = &t->stream;
    return ERR_OK;
}

enum err stream_accept(struct loop *l, int fd, struct stream **out)
{
    int yes = 1;
    *out = NULL;
    if (ioctl(fd, FIONBIO, &yes) != 0) {
        close(fd);
        return ERR_IO;
    }
    set_options(fd);
    return wrap(l, fd, out);
}

enum err tcp_connect(struct loop *l, const struct address *to, struct stream **out, int *errno_out)
{
    *out = NULL;
    int fd = socket(to->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        *errno_out = errno;
        return ERR_IO;
    }
    set_options(fd);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
    /* Registered only after connect(): an unconnected socket counts as hung up. */
    if (connect(fd, (const struct sockaddr *)&to->sa, to->len) != 0 && errno != EINPROGRESS) {
        *errno_out = errno;
        close(fd);
        return ERR_IO;
    }
    enum err e = wrap(l, fd, out);
    *errno_out = e == ERR_OK ? 0 : ENOMEM;
    return e;
}

int tcp_connect_result(struct stream *s)
{
    struct tcp *t = tcp_of(s);
    struct sockaddr_storage peer;
    socklen_t len = sizeof(int);
    int e = 0;
    if (getsockopt(t->watch.fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0)
        return errno;
    if (e != 0)
        return e;
    len = sizeof peer;
    if (getpeername(t->watch.fd, (struct sockaddr *)&peer, &len) == 0)
        return 0;
    return errno == ENOTCONN && !t->is_hung_up ? EINPROGRESS : ECONNRESET;
}

void tcp_peer(const struct stream *s, char *out, size_t cap)
{
    struct address peer = {.len = sizeof peer.sa};
    if (getpeername(tcp_of(s)->watch.fd, (struct sockaddr *)&peer.sa, &peer.len) != 0)
        peer.sa.ss_family = AF_UNSPEC;
    address_text(&peer, out, cap);
}
