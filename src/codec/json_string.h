/* One JSON string, read where it stands: for readers that know so much of a text already that they need no tree. What
 * json_tree_parse refuses inside a string is refused here, and what it reads is read the same. Pure. */
#ifndef RM_CODEC_JSON_STRING_H
#define RM_CODEC_JSON_STRING_H

#include "base/arena.h"
#include "codec/json_run.h"

struct json_string {
    size_t n;         /* bytes before the closing quote, as they stand */
    bool has_escapes; /* json_string_value must be asked for what they mean */
};

/* `from` begins behind an opening quote. False: no closing quote, a control character, a bad escape, half a surrogate
 * pair, bad UTF-8. */
bool json_string_read_any(struct bytes from, struct json_string *out);
/* (A short and plain one, of which most are, is seen at once.) */
static inline bool json_string_read(struct bytes from, struct json_string *out)
{
    if (from.n < 16)
        return json_string_read_any(from, out);
    unsigned n = json_special_within((const unsigned char *)from.p);
    if (n == 16 || from.p[n] != '"')
        return json_string_read_any(from, out);
    *out = (struct json_string){.n = n};
    return true;
}
/* What a string says whose inside json_string_read has found good: `inside` itself, or a copy in the arena where it has
 * escapes. */
struct bytes json_string_value(struct bytes inside, bool has_escapes, struct arena *a);

#endif
