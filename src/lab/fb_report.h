/* The rows of a failover bench as text and as JSON. Pure. */
#ifndef RM_LAB_FB_REPORT_H
#define RM_LAB_FB_REPORT_H

#include "lab/fb_run.h"

/* What is told besides the rows. */
struct fb_report_frame {
    const char *gateway, *wall; /* as given, for people */
    unsigned speed;
    bool is_partial; /* it was stopped, or could not go on */
    const char *why; /* NULL = nothing went wrong */
    uint64_t took_us;
};

/* One line of a row that is done, as it is shown while the bench runs, with its line end. */
void fb_report_line(const struct fb_row *row, struct buf *out);
/* All wanted rows (JUDGE_SCENARIOS of them are given), and "16 pass, 0 partial, 0 safe, 0 fail". */
void fb_report_table(const struct fb_row *rows, struct buf *out);
/* One object, documented in docs/failover-benchmark.md. */
void fb_report_json(const struct fb_row *rows, const struct fb_report_frame *frame, struct buf *out);
/* How many rows have this verdict. */
unsigned fb_report_count(const struct fb_row *rows, enum judge_verdict v);

#endif
