/* The page of `ringmain bench --html`: one HTML file that holds its style, its script and the results, and that may
 * load nothing from anywhere. The page itself is data/report.html; here the results are put into it. Pure. */
#ifndef RM_LAB_REPORT_H
#define RM_LAB_REPORT_H

#include "base/buf.h"

/* Appends the whole page with `json` in it. `json` is what the bench writes as its JSON (form ringmain-bench/1, see
 * docs/bench.md); it is not parsed here, and any bytes are safe: none can end the element that holds them, so none can
 * become markup or script. Text that is no JSON gives a page that says so. The caller owns both. At the maximum of
 * `out` its `overflow` is set and what it holds is no page. */
void report_html(struct bytes json, struct buf *out);

#endif
