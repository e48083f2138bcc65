/* The admin API's answers, without the thread: who may ask, and what is said. */
#ifndef RM_PANEL_ADMIN_H
#define RM_PANEL_ADMIN_H

#include "http/head.h"
#include "panel/panel.h"

struct admin; /* used by one thread */

/* The options' strings must outlive it. */
struct admin *admin_new(const struct panel_options *o);
void admin_free(struct admin *a);

struct admin_answer {
    unsigned status;
    const char *content_type;
    struct buf body;
    const char *more; /* further header lines, ready; "" = none */
};
/* 0 = allowed, else the status to refuse with (401, 403, 405). */
unsigned admin_check(const struct admin *a, const struct head *head);
/* Fills *out for a request that passed. The body is the caller's (buf_fini). */
void admin_answer(struct admin *a, const struct head *head, struct admin_answer *out);
/* The answer to a refused one. */
void admin_refusal(unsigned status, const char *why, struct admin_answer *out);
/* "127.0.0.1", "localhost" or "[::1]", with or without a port: a page on another name cannot reach us by DNS. */
bool admin_host_is_loopback(struct bytes host);

#endif
