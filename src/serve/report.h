/* Parts of report.c that are files of their own. Any thread. */
#ifndef RM_SERVE_REPORT_H
#define RM_SERVE_REPORT_H

#include "codec/json_write.h"
#include "plan/latency.h"

/* The member "latency" of a link's object: one object for each prompt size and effort that was seen. */
void report_latency_json(struct json_writer *j, const struct latency *l, const struct route_conf *route,
                         const struct link_conf *link, uint64_t now_us);
/* Budgets by target, size and effort; cuts and what is known of them by target. */
void report_latency_metrics(struct buf *out, const struct latency *l, const struct config *c, uint64_t now_us);

#endif
