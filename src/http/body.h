/* Message bodies (RFC 9112 6, 7): payload out of framed bytes, at any split. Pure. */
#ifndef RM_HTTP_BODY_H
#define RM_HTTP_BODY_H

#include "base/bytes.h"
#include "http/head.h"

struct body_reader {
    enum framing framing;
    uint64_t left; /* of the length, or of the running chunk */
    uint8_t state;
    uint32_t line_bytes; /* of chunk-size line or trailers, bounded */
    uint64_t size;       /* chunk size being read */
    uint8_t digits;
};

enum body_result {
    BODY_DATA, /* *out is payload, a view into *in, which was advanced past it */
    BODY_MORE, /* *in is used up */
    BODY_END,  /* the message is whole; what is left in *in belongs to the next one */
    BODY_BAD   /* malformed chunking */
};

void body_init(struct body_reader *b, enum framing framing, uint64_t content_length);
enum body_result body_next(struct body_reader *b, struct bytes *in, struct bytes *out);
/* The peer has closed: is the message whole? (FRAMING_UNTIL_CLOSE: yes; else only after BODY_END.) */
bool body_is_whole_at_close(const struct body_reader *b);
/* Chunk header "1a2b\r\n" for n > 0 bytes; returns its length. out takes 20. */
enum { BODY_CHUNK_HEAD_BYTES = 20 };
size_t body_chunk_head(char *out, size_t n);

#endif
