#include "net/tls_wire.h"

#include "base/err.h"
#include "base/mem.h"

void tls_wire_lend(struct tls_wire *w, char *room)
{
    struct bytes rest = tls_wire_bytes(w);
    RM_ASSERT(!w->is_lent);
    if (rest.n > 0)
        memcpy(room, rest.p, rest.n);
    mem_free(w->p);
    *w = (struct tls_wire){.plain = w->plain,
                           .p = room,
                           .end = (uint32_t)rest.n,
                           .is_lent = true,
                           .is_dry = w->is_dry,
                           .is_at_eof = w->is_at_eof,
                           .is_broken = w->is_broken};
}

void tls_wire_settle(struct tls_wire *w)
{
    struct bytes rest = tls_wire_bytes(w);
    RM_ASSERT(w->is_lent);
    w->p = rest.n > 0 ? memcpy(mem_alloc(rest.n), rest.p, rest.n) : NULL;
    w->at = 0;
    w->end = (uint32_t)rest.n;
    w->is_lent = false;
}

enum io tls_wire_fill(struct tls_wire *w)
{
    struct bytes rest = tls_wire_bytes(w);
    size_t n = 0, room = TLS13_WIRE_MAX - rest.n;
    RM_ASSERT(w->is_lent && room > 0);
    if (w->is_at_eof)
        return IO_EOF;
    if (w->is_dry)
        return IO_AGAIN;
    if (w->at > 0 && rest.n > 0)
        memmove(w->p, rest.p, rest.n);
    w->at = 0;
    w->end = (uint32_t)rest.n;
    enum io got = stream_read(w->plain, w->p + w->end, room, &n);
    w->end += (uint32_t)n;
    w->is_dry = got == IO_AGAIN || (got == IO_OK && n < room);
    w->is_at_eof = got == IO_EOF;
    w->is_broken |= got == IO_ERROR;
    return got;
}

void tls_wire_fini(struct tls_wire *w)
{
    RM_ASSERT(!w->is_lent);
    mem_free(w->p);
    *w = (struct tls_wire){.plain = NULL};
}
