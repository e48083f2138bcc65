/* Where a second answer meets the text that the client has from a first one that broke off. Pure. It holds what comes
 * until that is known.
 *
 * A restart must repeat the text byte for byte; what follows goes on after it. A continuation of a prefilled answer
 * goes on at once, unless it turns out that the model repeats the text all the same: then it is a restart. */
#ifndef RM_FRONT_SEAM_H
#define RM_FRONT_SEAM_H

#include "base/buf.h"

enum seam_result {
    SEAM_HELD,   /* not known yet; nothing may be shown */
    SEAM_JOINED, /* *rest is the first text that the client has not: valid until the next call */
    SEAM_PARTED  /* it is another answer: not to be shown */
};

struct seam {
    struct bytes told; /* borrowed: stays as it is until the seam is closed */
    bool is_prefilled;
    size_t n_repeated; /* of told, seen again */
    struct buf held;   /* prefilled: what may still be a repetition */
};

/* `told` is what the client has, all of it. */
void seam_init(struct seam *s, struct bytes told, bool is_prefilled);
void seam_fini(struct seam *s);
/* The next text of the second answer. Not after SEAM_JOINED or SEAM_PARTED. */
enum seam_result seam_text(struct seam *s, struct bytes text, struct bytes *rest);
/* Something else than text comes, or the end. */
enum seam_result seam_end(struct seam *s, struct bytes *rest);
/* What a model is given as its own beginning: without blanks at the end, which some refuse and none need. */
struct bytes seam_prefill(struct bytes told);

#endif
