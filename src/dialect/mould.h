/* The form of an answer's last event, to read the next one without a tree. Nearly all events of a stream are the one
 * before with another piece of text in it:
 *
 *     data: {"id":"c1","choices":[{"index":0,"delta":{"content":" dog"},"finish_reason":null}],"obfuscation":"xW"}\n\n
 *     '--------------- part ------------------------------------' hole '-------------- part ----------------' hole '-
 *
 * An event that was read from a tree leaves its bytes here, and where in them its text stood. Bytes that are equal in
 * all parts, with well-formed strings in the holes, make the same tree but for these strings; and as the decoder's
 * state has not changed either, the same event but for its text. Everything else is the tree's. */
#ifndef RM_DIALECT_MOULD_H
#define RM_DIALECT_MOULD_H

#include "base/arena.h"
#include "codec/sse.h"
#include "model/output.h"

enum { MOULD_HOLES_MAX = 2, MOULD_BYTES_MAX = 1024, MOULD_TEXT_MAX = 1 << 24, MOULD_WHOLE = 255 };

struct mould {
    struct event event;
    bool text_has_escapes; /* of the event that matched last */
    uint8_t n_holes;       /* 0 = no form is known */
    uint8_t text_hole;
    uint8_t strip_part; /* what is to be cut out, of that part, from its beginning; MOULD_WHOLE = nothing */
    uint16_t strip_at, strip_end;
    struct mould_part {
        uint16_t at, end; /* of `bytes` */
    } parts[MOULD_HOLES_MAX + 1];
    uint16_t cap;
    char *bytes; /* the event as it came; from mem_take(cap), NULL = none yet */
};

/* Where the strings of an event's tree were read from, as the dialect tells. */
struct mould_source {
    struct bytes data;    /* the tree's JSON text: a part of the event's data */
    const char *copy;     /* the copy of it in which the strings are (json_tree_parse_placed); NULL = not told, as
                             reading such an event again would not give the same */
    struct bytes padding; /* a string of the tree that nobody asks for and that differs each time; p NULL = none */
    bool is_padding_kept; /* a collected answer has it: the event is more than the one before with other text */
};

/* No form is known yet. */
void mould_init(struct mould *m);
/* ev gave the one event e and nothing else; strip_at, strip_end: of ev->data, equal = none. Makes the mould where it
 * can be done, else clears it. */
void mould_make(struct mould *m, const struct sse_event *ev, const struct event *e, const struct mould_source *from,
                size_t strip_at, size_t strip_end);
void mould_clear(struct mould *m);
/* Its memory goes. */
void mould_fini(struct mould *m);
/* Does an event of this form begin `ahead`, with text in it? Then *out tells all of it, and the mould's event, which it
 * shows, has its text as it stands there (not empty): where text_has_escapes, json_string_value tells what it means.
 * Else *out says nothing. The mould must have a form. */
bool mould_match(struct mould *m, struct bytes ahead, struct output *out);

#endif
