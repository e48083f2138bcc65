/* The admin listener: its own thread with its own loop. /metrics, /api/requests, /api/requests/{id}, /api/health.
 *
 * Without a secret: loopback only, GET and HEAD only, Host must be a loopback name, no CORS headers. With one: every
 * path needs `Authorization: Bearer SECRET`. */
#ifndef RM_PANEL_PANEL_H
#define RM_PANEL_PANEL_H

#include "base/buf.h"
#include "base/err.h"

struct panel;

struct panel_options {
    const char *listen; /* "127.0.0.1:8081" */
    bool has_secret;
    unsigned char secret_sha256[32];
    const char *ledger_path;                     /* "" = no ledger: /api/requests answers 404 with a sentence */
    void (*health)(struct buf *out, void *arg);  /* JSON object; called on the panel's thread */
    void (*metrics)(struct buf *out, void *arg); /* Prometheus text; the same */
    void *arg;
};

/* Opens the listener and starts the thread. Strings are copied. message: what failed, for people. */
enum err panel_start(const struct panel_options *o, struct panel **out, char *message, size_t message_cap) RM_MUST_USE;
/* Real address (after port 0). */
const char *panel_listen(const struct panel *p);
/* NULL is fine. */
void panel_stop(struct panel *p);

#endif
