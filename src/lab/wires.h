/* Open connections of the load generator that wait for their next request, by where they lead. */
#ifndef RM_LAB_WIRES_H
#define RM_LAB_WIRES_H

#include "http/client.h"
#include "lab/load.h"

struct wires;

struct wires *wires_new(void);
/* Closes all. */
void wires_free(struct wires *w);
/* An idle connection to where the target leads, or NULL. The newest first. */
struct client_conn *wires_take(struct wires *w, const struct load_target *to);
/* Keeps the connection, or closes it where it cannot serve another exchange. */
void wires_put(struct wires *w, const struct load_target *to, struct client_conn *c);

#endif
