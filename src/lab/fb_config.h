/* A gateway's configuration made fit for one run of the failover bench: other addresses, and faster times. It works on
 * the text, so that what was written stays as it was, comments included. Pure. */
#ifndef RM_LAB_FB_CONFIG_H
#define RM_LAB_FB_CONFIG_H

#include "base/buf.h"

/* Where the shipped configuration expects the pretend provider. */
extern const char fb_config_wall[];

/* Every `from` becomes `to`; how many there were. */
size_t fb_config_replace(struct bytes text, struct bytes from, struct bytes to, struct buf *out);
/* Budgets, timeouts, windows and cooldowns divided by speed, not below what their settings allow. Not the time to
 * connect, nor the retry-after that is waited for: a provider tells that in whole seconds. */
void fb_config_speed(struct bytes text, unsigned speed, struct buf *out);

#endif
