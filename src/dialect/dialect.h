/* A dialect: a wire protocol, both ways, without I/O and without time. One row per dialect in registry.c; the files of
 * a dialect are <name>_request.c, <name>_decode.c, <name>_encode.c, <name>_error.c. */
#ifndef RM_DIALECT_DIALECT_H
#define RM_DIALECT_DIALECT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fields.h"
#include "codec/json_splice.h"
#include "model/call.h"
#include "model/event.h"
#include "model/profile.h"

struct request; /* model/request.h: a whole request as a tree of our own words, for translation */
struct decoder;
struct encoder;
struct collector_ops;
struct encoder_options;
struct answer_error;

/* ---- registry ---- */

enum dialect_kind { DIALECT_OPENAI, DIALECT_ANTHROPIC, DIALECT_GEMINI };
struct dialect {
    enum dialect_kind kind;
    const char *name;        /* "openai", "anthropic" */
    const char *client_path; /* "/v1/chat/completions", "/v1/messages" */
    /* client body -> facts. `why` (static or arena) for people on error. See dialect_read_call. */
    enum err (*read_call)(struct bytes body, unsigned max_depth, struct arena *a, struct call *out, const char **why);
    /* body -> request tree, request tree -> provider body, for translation. */
    enum err (*parse)(struct bytes body, unsigned max_depth, struct arena *a, struct request *out, const char **why);
    enum err (*render)(const struct request *r, const struct profile *p, struct arena *a, struct buf *out,
                       struct buf *adjusted, const char **why);
    const struct decoder_ops *decoder;
    const struct encoder_ops *encoder;
    const struct collector_ops *collector;
    /* Provider's error body -> failure. See dialect_classify. */
    void (*classify)(struct bytes vendor, unsigned status, const struct fields *fields, struct bytes body,
                     int64_t wall_ms, struct failure *out);
};

/* NULL when there is none of that name / for that path. */
const struct dialect *dialect_by_name(struct bytes name);
const struct dialect *dialect_by_path(struct bytes path);
/* The dialect in whose form errors on this path are told, also for paths that are not built ("/v1beta/…": Gemini's
 * form, by a row that can do nothing else; anything unknown: OpenAI's). Never NULL. */
const struct dialect *dialect_of_errors(struct bytes path);

/* ---- requests ---- */

/* Reads the facts of a client's request. Refuses (ERR_*, why for people): not one JSON object, bad UTF-8, too deep, a
 * duplicate or escaped duplicate of a member that the gateway reads or splices, missing or non-string or empty model,
 * model with control characters, stream not a boolean, n not a positive whole number, max_tokens not a whole number. */
enum err dialect_read_call(const struct dialect *d, struct bytes body, unsigned max_depth, struct arena *a,
                           struct call *out, const char **why) RM_MUST_USE;

/* Builds the body that a target gets. Same dialect: the client's own bytes with spliced members (DESIGN 3.13), as
 * pieces that borrow from `body` and the arena. Other dialect: parse and render. Everything that was changed beyond
 * model/stream/ stream_options goes to *adjusted as "name=value" joined by ", " (e.g. "max_tokens=8192").
 * ERR_UNSUPPORTED: cannot be expressed there (why names it): the link is skipped as incapable.
 * Deterministic: equal input gives equal bytes. */
enum err dialect_build_body(const struct dialect *client, const struct dialect *target, struct bytes body,
                            const struct call *call, const struct profile *p, unsigned max_depth, struct arena *a,
                            struct pieces *out, struct buf *adjusted, const char **why) RM_MUST_USE;
/* The tiny streamed completion of a keepalive. */
void dialect_build_keepalive(const struct dialect *target, const struct profile *p, struct buf *out);
/* Path of a call, the base URL's own path before it: openai BASE "/chat/completions", anthropic BASE "/v1/messages" (a
 * trailing /v1 of the base is not doubled). */
void dialect_target_path(const struct dialect *target, struct bytes base_path, struct buf *out);
/* Header lines ("name: value\r\n") for the provider: credential, version and beta headers, accept. client_fields: the
 * client's, from which only the dialect's own version/beta headers are taken, and only when client == target. Other
 * betas are dropped. */
void dialect_target_fields(const struct dialect *client, const struct dialect *target,
                           const struct fields *client_fields, struct bytes api_key, bool is_stream, struct buf *out);
/* Those lines are not the same whatever this client sent: its own version or beta headers go along. */
bool dialect_target_takes_fields(const struct dialect *client, const struct dialect *target,
                                 const struct fields *client_fields);
/* Response fields of the provider that may go down to the client: its request id, and rate-limit headers when the
 * dialects are equal. Never organisation ids. */
bool dialect_field_goes_down(const struct dialect *client, const struct dialect *target, struct bytes name);
/* Name of the provider's request-id header among fields; value p NULL when none. */
struct bytes dialect_request_id(const struct dialect *target, const struct fields *fields);

/* ---- vendors: hosts that speak a dialect with habits of their own ---- */

/* "api.together.xyz" -> "together"; unknown -> "generic". */
struct bytes vendor_from_host(struct bytes host);
bool vendor_is_known(struct bytes vendor);
/* Names, NULL-terminated, for "did you mean". */
const char *const *vendor_names(void);

#endif
