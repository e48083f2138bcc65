#include "model/failure.h"

#include "base/check.h"

const char *failure_class_name(enum failure_class c)
{
    static const char *const names[] = {"none",     "fault",   "overload", "rate",   "quota", "auth",
                                        "notfound", "context", "policy",   "compat", "client"};
    RM_ASSERT((unsigned)c < RM_COUNTOF(names));
    return names[c];
}

enum outcome failure_outcome(enum failure_class c)
{
    switch (c) {
    case FAILURE_NONE:
        return OUTCOME_OK;
    case FAILURE_FAULT:
        return OUTCOME_SERVER_ERROR;
    case FAILURE_OVERLOAD:
        return OUTCOME_OVERLOADED;
    case FAILURE_RATE:
        return OUTCOME_RATE_LIMITED;
    case FAILURE_QUOTA:
        return OUTCOME_QUOTA_EXHAUSTED;
    case FAILURE_AUTH:
        return OUTCOME_AUTH_ERROR;
    case FAILURE_NOTFOUND:
        return OUTCOME_NOT_FOUND;
    case FAILURE_CONTEXT:
        return OUTCOME_CONTEXT_LENGTH;
    case FAILURE_POLICY:
        return OUTCOME_CONTENT_POLICY;
    case FAILURE_COMPAT:
        return OUTCOME_INCOMPATIBLE;
    case FAILURE_CLIENT:
        return OUTCOME_CLIENT_ERROR;
    }
    RM_UNREACHABLE();
}

/* Bytes of the character that src begins with, 0 when it is none. */
static size_t character(struct bytes src)
{
    unsigned char c = (unsigned char)src.p[0];
    size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    return n <= src.n && bytes_is_utf8(bytes_slice(src, 0, n)) ? n : 0;
}

/* Nothing but printable ASCII, as most texts are. */
static bool is_plain(struct bytes b)
{
    unsigned odd = 0;
    for (size_t i = 0; i < b.n; i++)
        odd |= (unsigned char)(b.p[i] - 0x20) > 0x7e - 0x20;
    return odd == 0;
}

void failure_text(char *dst, size_t cap, struct bytes src)
{
    size_t at = 0;
    RM_ASSERT(cap > 0);
    struct bytes fits = bytes_slice(src, 0, src.n < cap - 1 ? src.n : cap - 1);
    if (fits.n > 0 && is_plain(fits)) {
        memcpy(dst, fits.p, fits.n);
        dst[fits.n] = '\0';
        return;
    }
    while (src.n > 0) {
        size_t n = character(src), step = n > 0 ? n : 1;
        if (at + step > cap - 1)
            break;
        memcpy(dst + at, src.p, step);
        if (n == 0)
            dst[at] = '?';
        else if ((unsigned char)src.p[0] < 0x20 || src.p[0] == 0x7f)
            dst[at] = ' ';
        at += step;
        src = bytes_slice(src, step, src.n);
    }
    dst[at] = '\0';
}

void failure_make(struct failure *f, enum outcome o, const char *message)
{
    *f = (struct failure){.class = FAILURE_FAULT, .outcome = o, .retry_after_ms = -1};
    failure_text(f->message, sizeof f->message, bytes_of(message));
}
