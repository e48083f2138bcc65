/* What a pretend provider sends for one request, decided at once: bytes with pauses before them, and how it ends. Pure,
 * so that every fault can be tested byte for byte. The dialects' shapes are in shape.h. */
#ifndef RM_LAB_SCRIPT_H
#define RM_LAB_SCRIPT_H

#include "lab/fault.h"
#include "lab/shape.h"

enum script_end { SCRIPT_KEEP /* wait for the next request */, SCRIPT_FIN, SCRIPT_RST, SCRIPT_HANG };

struct script_step {
    uint64_t delay_us; /* before the bytes, from the step before; the first one from the request */
    struct bytes data; /* may be empty: a pause before the end */
};
struct script {
    struct script_step *steps;
    size_t n;
    enum script_end end;
    unsigned status;    /* of the head; 0 = none is sent */
    size_t piece_bytes; /* no write is larger; 0 = as large as the steps are */
    uint32_t piece_ms;  /* pause between two such writes */
};

/* How fast: the first word this long after the request, and one word after the other. */
struct script_pace {
    uint64_t ttft_us, gap_us;
};

/* The answer to a chat request. Everything lives in the arena. */
void script_chat(const struct shape_request *r, const struct script_pace *pace, const struct fault *f,
                 struct arena *arena, struct script *out);
/* An error in the dialect's form. */
void script_error(const struct shape_request *r, const struct shape_error *e, struct arena *arena, struct script *out);
/* A JSON answer. */
void script_json(unsigned status, struct bytes json, struct arena *arena, struct script *out);

#endif
