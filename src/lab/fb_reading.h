/* How the failover bench's client reads one answer, streamed or whole: as a careful client library would. It takes an
 * error event for the error it is, passes over an event that is no JSON, and is through at [DONE]. Fed at any boundary.
 * Pure: the time is handed in. */
#ifndef RM_LAB_FB_READING_H
#define RM_LAB_FB_READING_H

#include "base/arena.h"
#include "codec/sse.h"
#include "lab/judge.h"

struct fb_reading {
    struct judge_call *call; /* borrowed; filled as it goes */
    bool is_stream, is_lost; /* lost: an event was too large to be read */
    struct sse sse;
    struct buf text, body; /* both bounded */
    struct arena scratch;
};

/* call is zeroed. */
void fb_reading_init(struct fb_reading *r, struct judge_call *call);
void fb_reading_fini(struct fb_reading *r);
void fb_reading_head(struct fb_reading *r, unsigned status, struct bytes content_type);
/* at_us: since the call was sent; not 0. */
void fb_reading_body(struct fb_reading *r, struct bytes part, uint64_t at_us);
/* A client would not read on: [DONE] came, or what comes cannot be read. */
bool fb_reading_is_through(const struct fb_reading *r);
/* Nothing more comes. broken: NULL = the body ended well, else what broke. */
void fb_reading_end(struct fb_reading *r, const char *broken);

#endif
