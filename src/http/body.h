/* Message bodies (RFC 9112 6, 7): payload out of framed bytes, at any split. Pure. */
#ifndef RM_HTTP_BODY_H
#define RM_HTTP_BODY_H

#include "base/bytes.h"
#include "http/head.h"

enum body_state {               /* of chunked coding */
                  BODY_SIZE,    /* digits */
                  BODY_EXT,     /* after ';' */
                  BODY_SIZE_LF, /* CR was seen */
                  BODY_IN_CHUNK,
                  BODY_CHUNK_CR,
                  BODY_CHUNK_LF,
                  BODY_TRAILER, /* at the beginning of a trailer line */
                  BODY_TRAILER_LINE,
                  BODY_TRAILER_LF,
                  BODY_LAST_LF,
                  BODY_WHOLE,
                  BODY_BROKEN
};
struct body_reader {
    uint64_t left;       /* of the length, or of the running chunk */
    uint64_t size;       /* chunk size being read */
    uint32_t line_bytes; /* of chunk-size line or trailers, bounded */
    uint8_t framing, state, digits;
};

enum body_result {
    BODY_DATA, /* *out is payload, a view into *in, which was advanced past it */
    BODY_MORE, /* *in is used up */
    BODY_END,  /* the message is whole; what is left in *in belongs to the next one */
    BODY_BAD   /* malformed chunking */
};

void body_init(struct body_reader *b, enum framing framing, uint64_t content_length);
enum body_result body_next(struct body_reader *b, struct bytes *in, struct bytes *out);
/* The usual, in one step: a chunk begins here and lies whole in *in, with all that frames it. False: nothing was done,
 * ask body_next. */
bool body_whole_chunk(const struct body_reader *b, struct bytes *in, struct bytes *out);
/* body_next would say BODY_MORE: asked for most often of all, and answered for the coding that is met most. */
static inline bool body_is_dry(const struct body_reader *b, struct bytes in)
{
    return in.n == 0 && b->framing == FRAMING_CHUNKED && b->state < BODY_WHOLE;
}
/* It would say BODY_END: told at once of a body of known length alone. */
static inline bool body_is_over(const struct body_reader *b)
{
    return b->framing == FRAMING_LENGTH && b->left == 0;
}
/* The peer has closed: is the message whole? (FRAMING_UNTIL_CLOSE: yes; else only after BODY_END.) */
bool body_is_whole_at_close(const struct body_reader *b);
/* Chunk header "1a2b\r\n" for n > 0 bytes; returns its length. Inlined: each chunk of each stream has one. */
enum { BODY_CHUNK_HEAD_BYTES = 20 };
static inline __attribute__((always_inline)) size_t body_chunk_head(char out[BODY_CHUNK_HEAD_BYTES], size_t n)
{
    RM_ASSERT(n > 0);
    size_t n_digits = (67 - (size_t)__builtin_clzll(n)) / 4;
    for (size_t i = n_digits; i > 0; n >>= 4)
        out[--i] = "0123456789abcdef"[n & 15];
    out[n_digits] = '\r';
    out[n_digits + 1] = '\n';
    return n_digits + 2;
}

#endif
