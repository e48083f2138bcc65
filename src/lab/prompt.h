/* The request that the benchmark sends, with a text of our own of about four bytes a token. Pure. */
#ifndef RM_LAB_PROMPT_H
#define RM_LAB_PROMPT_H

#include "base/buf.h"

struct prompt {
    const char *model;
    unsigned system_tokens, user_tokens, max_tokens; /* max_tokens 0 = not said */
};

/* The JSON body of a streamed Chat call that asks for usage. */
void prompt_body(const struct prompt *p, struct buf *out);
/* The request's head. key: "" = no authorization. */
void prompt_head(struct buf *out, struct bytes path, struct bytes host, const char *key, size_t body_bytes);

#endif
