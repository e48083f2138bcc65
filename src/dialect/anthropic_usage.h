/* The usage object of the Messages API <-> struct usage. Reports are cumulative and may be partial: null or missing
 * keeps what was known (anthropic-messages.md 3 "usage", 5 "message_delta"). */
#ifndef RM_DIALECT_ANTHROPIC_USAGE_H
#define RM_DIALECT_ANTHROPIC_USAGE_H

#include "codec/json_tree.h"
#include "codec/json_write.h"
#include "model/usage.h"

/* Merges a report into *u. False when it says nothing. */
bool anthropic_usage_merge(yyjson_val *told, struct usage *u);
/* The class of service it was charged as, "" = not told: "standard", "priority", "batch"; "fast" of fast mode; "us" of
 * inference in one place. Lives as long as the tree. */
struct bytes anthropic_usage_service(yyjson_val *told);
/* The object with all counts; what is not known is 0. */
void anthropic_usage_write(struct json_writer *w, const struct usage *u);

#endif
