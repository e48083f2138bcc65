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

void failure_text(char *dst, size_t cap, struct bytes src)
{
    RM_ASSERT(cap > 0);
    size_t n = src.n < cap - 1 ? src.n : cap - 1;
    if (n < src.n)
        while (n > 0 && ((unsigned char)src.p[n] & 0xc0) == 0x80)
            n--;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)src.p[i];
        dst[i] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    dst[n] = '\0';
}

void failure_make(struct failure *f, enum outcome o, const char *message)
{
    *f = (struct failure){.class = FAILURE_FAULT, .outcome = o, .retry_after_ms = -1};
    failure_text(f->message, sizeof f->message, bytes_of(message));
}
