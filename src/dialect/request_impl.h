/* What the request files of this room share. Not for other rooms. */
#ifndef RM_DIALECT_REQUEST_IMPL_H
#define RM_DIALECT_REQUEST_IMPL_H

#include "dialect/dialect.h"
#include "model/request.h"

#include "codec/json_tree.h"
#include "codec/json_write.h"

/* ---- one per dialect; the contracts are those of struct dialect ---- */

enum err openai_read_call(struct bytes body, unsigned max_depth, struct arena *a, struct call *out, const char **why);
enum err openai_parse(struct bytes body, unsigned max_depth, struct arena *a, struct request *out, const char **why);
enum err openai_render(const struct request *r, const struct profile *p, struct arena *a, struct buf *out,
                       struct buf *adjusted, const char **why);
enum err anthropic_read_call(struct bytes body, unsigned max_depth, struct arena *a, struct call *out,
                             const char **why);
enum err anthropic_parse(struct bytes body, unsigned max_depth, struct arena *a, struct request *out, const char **why);
enum err anthropic_render(const struct request *r, const struct profile *p, struct arena *a, struct buf *out,
                          struct buf *adjusted, const char **why);

/* ---- what was found ---- */

/* Kept from the reading of a call for the building of bodies: in `body`, and in no other text. */
struct call_members {
    struct bytes body;
    unsigned max_depth; /* it was scanned with */
    struct json_scan scan;
    const struct json_member *v; /* n that were looked for: those that are there, the others were never written */
    size_t n;
    uint32_t found; /* by number, a bit for each that is */
};

/* ---- what was changed ---- */

/* Appends "name=value" with its ", ". The value must be safe in a header. */
void adjusted_put(struct buf *adjusted, const char *name, const char *value);
void adjusted_put_int(struct buf *adjusted, const char *name, int64_t value);
/* "name=dropped" for a top-level member's name that is safe to print. */
void adjusted_put_dropped(struct buf *adjusted, struct bytes name);

/* ---- trees ---- */

/* Raw text of a number value, p NULL when it is none. */
struct bytes number_text(yyjson_val *v);
/* Text of all parts of kind TEXT and REFUSAL, joined by `glue`. */
struct bytes parts_text(const struct part *parts, size_t n, const char *glue, struct arena *a);
/* The body as a tree whose root is an object. */
enum err body_tree(struct bytes body, unsigned max_depth, struct arena *a, yyjson_val **root, const char **why);
/* Lists in *r the members of the body that are not among `known` (NULL-terminated), as far as they are not null and
 * their names are safe to print; 16 at most. */
void note_dropped(yyjson_val *root, const char *const *known, struct arena *a, struct request *r);
/* The same for one more thing that was left out. */
void note_more_dropped(struct request *r, struct bytes name, struct arena *a);
/* "data:image/png;base64,AAAA" -> media type and data; false when it is no base64 data URL. */
bool data_url_split(struct bytes url, struct bytes *media_type, struct bytes *data);

/* ---- tool ids ---- */

enum id_rule {
    ID_WORD, /* letters, digits, _ and -: Anthropic */
    ID_CHAT, /* printable, at most 40 bytes: OpenAI's limit, which hosts have copied */
    ID_NINE  /* nine letters and digits: Mistral */
};
/* The id itself when it fits, else one made from it: equal ids stay equal, different ones stay different. */
struct bytes tool_id_fit(struct bytes id, enum id_rule rule, struct arena *a);

/* ---- what a Claude model takes ---- */

struct claude {
    bool takes_sampling; /* temperature, top_p: up to Opus 4.6 */
    bool takes_both;     /* temperature and top_p in one request */
    bool takes_thinking; /* a thinking member at all */
    bool is_adaptive;    /* thinking {"type":"adaptive"} and output_config.effort; else a budget */
    bool takes_xhigh;    /* effort xhigh */
    bool takes_schema;   /* output_config.format */
};
struct claude claude_of(struct bytes model, struct bytes vendor);

#endif
