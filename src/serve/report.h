/* Parts of report.c that are files of their own. Any thread. */
#ifndef RM_SERVE_REPORT_H
#define RM_SERVE_REPORT_H

#include "codec/json_write.h"
#include "plan/latency.h"
#include "plan/ratio.h"

/* The member "latency" of a link's object: one object for each prompt size and effort that was seen. */
void report_latency_json(struct json_writer *j, const struct latency *l, const struct route_conf *route,
                         const struct link_conf *link, uint64_t now_us);
/* Budgets by target, size and effort; cuts and what is known of them by target. */
void report_latency_metrics(struct buf *out, const struct latency *l, const struct config *c, uint64_t now_us);
/* The member "estimates" of a link's object, and the same as figures: bytes a token, and how far off. */
void report_ratio_json(struct json_writer *j, const struct ratio_book *b, const struct link_conf *link);
void report_ratio_metrics(struct buf *out, const struct ratio_book *b, const struct config *c);
/* "name{provider="…",model="…"", without the closing brace. */
void report_target(struct buf *out, const char *name, const struct link_conf *l);

#endif
