/* The form of a whole Chat Completions answer, to read the next one without a scan. A host puts all its answers in the
 * same way:
 *
 *     {"id":"chatcmpl-8","model":"m-1","choices":[{"index":0,"message":{"content":"Hello"},"finish_reason":"stop"}],…
 *     part--'---slot---'--part--'slot'------------------ part ------------------'-slot'------- part ------'slot'-part
 *
 * An answer that was read from notes leaves its parts here, and what its slots say. One that is equal in all parts,
 * with well-formed values of the same kinds in its slots, would be read the same but for these values. Pure. */
#ifndef RM_DIALECT_OPENAI_FORM_H
#define RM_DIALECT_OPENAI_FORM_H

#include "dialect/decode.h"
#include "dialect/openai_noted.h"

/* *noted was read from the index of text. Makes *form, or makes it anew, where it can be done. form NULL: nothing is
 * kept. max_depth: under which the text was read. */
void openai_form_make(struct answer_form **form, struct bytes text, unsigned max_depth, const struct json_index *index,
                      const struct openai_noted *noted);
/* True: text is of this form, and *out is what openai_noted_read would say of it (but for object, which is as it was,
 * places, and a null, which is as if it were not there). False: nothing is known of it; *out says nothing. form, or
 * *form, may be NULL. */
bool openai_form_match(struct answer_form **form, struct bytes text, unsigned max_depth, struct openai_noted *out);

#endif
