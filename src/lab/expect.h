/* "steady.ttft.p50.delta_ms<=2": what a figure is expected to be, for the exit code of a pipeline. Pure. */
#ifndef RM_LAB_EXPECT_H
#define RM_LAB_EXPECT_H

#include "lab/figures.h"

#include <stdbool.h>

enum expect_op { EXPECT_LESS, EXPECT_AT_MOST, EXPECT_MORE, EXPECT_AT_LEAST };
struct expect {
    const char *expression; /* borrowed, as given */
    struct bytes name;      /* view into it */
    enum expect_op op;
    double number;
};

/* NAME, one of < <= > >=, NUMBER; blanks between them do not count. False: *why says what is wrong. */
bool expect_parse(const char *expression, struct expect *out, const char **why);
/* A value that was not measured (NAN) fulfils nothing. */
bool expect_holds(const struct expect *e, double value);

#endif
