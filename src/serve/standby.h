/* Warm standbys (DESIGN 3.9): an idle connection per standby on every core, and a tiny streamed completion to a standby
 * that has seen no traffic for keepalive_sec, once per target and process. plan/standby decides who is due; this
 * carries it out. */
#ifndef RM_SERVE_STANDBY_H
#define RM_SERVE_STANDBY_H

struct worker;

void standby_init(struct worker *w);
/* The snapshot has changed. */
void standby_reload(struct worker *w);
/* Cancels what is under way and stops looking. */
void standby_stop(struct worker *w);

#endif
