/* The usage object of Chat Completions, in the forms that its hosts give it, <-> struct usage. */
#ifndef RM_DIALECT_OPENAI_USAGE_H
#define RM_DIALECT_OPENAI_USAGE_H

#include "codec/json_tree.h"
#include "codec/json_write.h"
#include "model/usage.h"

/* Whole reports only: each replaces the last. False when it says nothing. openai-chat.md 3 "usage" and 7. */
bool openai_usage_read(yyjson_val *told, struct usage *out);
/* The object as OpenAI writes it; what is not known is 0. */
void openai_usage_write(struct json_writer *w, const struct usage *u);

#endif
