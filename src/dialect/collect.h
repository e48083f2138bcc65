/* A provider's stream -> the whole answer in the provider's own dialect, for a client of that dialect that waits. What
 * our words cannot say (struct event) is not lost: members are carried over as they came, whoever made them up; only
 * what belongs to streaming goes (indexes of tool calls, padding). Translation is not this: see encode.h. Pure. */
#ifndef RM_DIALECT_COLLECT_H
#define RM_DIALECT_COLLECT_H

#include "codec/json_tree.h"
#include "dialect/encode.h"
#include "dialect/mosaic.h"

struct collector {
    const struct dialect *dialect;
    struct encoder_options o;
    struct mosaic answer;     /* an object */
    struct mosaic_store keep; /* of the answer */
    struct rope *running;     /* all that the last event did was to run this text on; NULL = it did more, or less */
    struct arena scratch;     /* reset per event */
    struct arena_mark clean;  /* scratch as it is between calls */
    bool is_started, is_ended;
};

struct collector_ops {
    void (*event)(struct collector *c, struct bytes name, yyjson_val *root); /* root: an object, in scratch */
    void (*end)(struct collector *c);                                        /* completes c->answer */
};

/* o: model, created_wall_s and id_seed are for what the provider does not tell. */
void collector_init(struct collector *c, const struct dialect *dialect, const struct encoder_options *o);
void collector_fini(struct collector *c);
/* One event that the decoder has found good. Data that is no JSON object ([DONE], "") is passed over. */
void collector_event(struct collector *c, struct bytes name, struct bytes data);
/* An event that is the last one with this text in place of its own (struct event.is_more). False: it is to be given to
 * collector_event. */
bool collector_more(struct collector *c, struct bytes text);
/* The answer is whole: appends its JSON, once. */
void collector_end(struct collector *c, struct buf *out);
/* Memory that the answer has taken so far. */
size_t collector_bytes(const struct collector *c);

/* ---- for the dialects ---- */

/* Sets a member of the answer, or of a part of it, to what the provider says. null, "", [] and {} never replace more.
 */
void collector_put(struct collector *c, struct mosaic *object, struct bytes name, yyjson_val *v);
/* Sets a member that says nothing so far. */
void collector_default(struct collector *c, struct mosaic *object, const char *name, struct bytes text);

#endif
