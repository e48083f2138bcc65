/* Content codings of an answer: gzip and deflate, decoded piece by piece. Providers are asked for identity; some send
 * gzip all the same. */
#ifndef RM_UPSTREAM_INFLATER_H
#define RM_UPSTREAM_INFLATER_H

#include "base/bytes.h"

#include <zlib.h>

enum coding { CODING_NONE, CODING_GZIP, CODING_DEFLATE, CODING_OTHER };
/* Of a content-encoding value; "" and identity are CODING_NONE. */
enum coding coding_of(struct bytes value);

enum inflate_result {
    INFLATE_DATA, /* n bytes were written */
    INFLATE_MORE, /* the input is used up */
    INFLATE_BAD
};

struct inflater {
    z_stream z;
    enum coding coding;
    bool is_begun, is_ended;
};

/* coding: GZIP or DEFLATE. */
void inflater_init(struct inflater *f, enum coding coding);
/* Accepts the zero value. */
void inflater_fini(struct inflater *f);
/* Decodes from *in (advanced) into out[cap]. Several gzip members in a row are one stream; what follows a deflate
 * stream is dropped. */
enum inflate_result inflater_next(struct inflater *f, struct bytes *in, char *out, size_t cap, size_t *n);

#endif
