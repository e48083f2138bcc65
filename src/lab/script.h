/* What a pretend provider sends for one request, decided at once: bytes with pauses before them, and how it ends. Pure,
 * so that every fault can be tested byte for byte. The dialects' shapes are in shape.h. */
#ifndef RM_LAB_SCRIPT_H
#define RM_LAB_SCRIPT_H

#include "lab/fault.h"
#include "lab/shape.h"

enum script_end { SCRIPT_KEEP /* wait for the next request */, SCRIPT_FIN, SCRIPT_RST, SCRIPT_HANG };

struct script_step {
    uint32_t delay_ms; /* before the bytes */
    struct bytes data;
};
struct script {
    struct script_step *steps;
    size_t n;
    enum script_end end;
    unsigned status; /* of the head; 0 = none is sent */
};

/* How fast and how much. */
struct script_pace {
    uint32_t ttft_ms, gap_ms;
};

/* The answer to a chat request. Everything lives in the arena. */
void script_chat(const struct shape_request *r, const struct script_pace *pace, const struct fault *f,
                 struct arena *arena, struct script *out);
/* An error in the dialect's form. */
void script_error(const struct shape_request *r, const struct shape_error *e, struct arena *arena, struct script *out);
/* A JSON answer. */
void script_json(unsigned status, struct bytes json, struct arena *arena, struct script *out);

#endif
