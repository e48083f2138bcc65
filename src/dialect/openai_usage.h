/* The usage object of Chat Completions, in the forms that its hosts give it, <-> struct usage. */
#ifndef RM_DIALECT_OPENAI_USAGE_H
#define RM_DIALECT_OPENAI_USAGE_H

#include "codec/json_tree.h"
#include "codec/json_write.h"
#include "model/usage.h"

/* The numbers of a report as they are told; -1 = not told, or no number. */
struct openai_told {
    int64_t prompt, completion, total, cached, written, reasoning;
};
#define OPENAI_TOLD_NONE ((struct openai_told){-1, -1, -1, -1, -1, -1})

/* What they mean; false when they say nothing. */
bool openai_usage_of(const struct openai_told *told, struct usage *out);
/* Whole reports only: each replaces the last. False when it says nothing. openai-chat.md 3 "usage" and 7. */
bool openai_usage_read(yyjson_val *told, struct usage *out);
/* The object as OpenAI writes it; what is not known is 0. */
void openai_usage_write(struct json_writer *w, const struct usage *u);

#endif
