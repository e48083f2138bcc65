/* Heads that were seen before. A client sends the same head with every request of its connections but for the digits of
 * Content-Length; so the few heads seen last are kept, with what they mean, and one that is the same need not be read
 * again. Private to the room; of one server, on its core. Pure. */
#ifndef RM_HTTP_HEADS_H
#define RM_HTTP_HEADS_H

#include "http/server.h"

struct heads;
struct heads *heads_new(void);
/* h may be NULL. What it held is wiped: there are credentials in it. */
void heads_free(struct heads *h);
/* True: `in` begins with a request's head that is known, and *out and *used are what head_parse would say, but that the
 * views point to a copy of the text in the arena. False: nothing is said, head_parse has to look. */
bool heads_find(struct heads *h, struct bytes in, const struct head_limits *limits, struct arena *arena,
                struct head *out, size_t *used);
/* What the owner has noted with the head that was found or noted last, for him to read and write until the next call
 * here; NULL = that one is not kept. */
struct head_memo *heads_memo(struct heads *h);
/* All of them, as if none had been seen; what they held is wiped. */
void heads_forget(struct heads *h);
/* This text was a head, and head_parse found `head` in it (whose views point into the text): it may be kept. */
void heads_note(struct heads *h, struct bytes text, const struct head *head);

#endif
