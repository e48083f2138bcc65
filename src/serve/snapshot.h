/* From a checked config to a snapshot that workers can use: certificate stores, vendors, heads of requests, ids in the
 * registry. */
#ifndef RM_SERVE_SNAPSHOT_H
#define RM_SERVE_SNAPSHOT_H

#include "config/config.h"
#include "plan/registry.h"

/* Fills what config/ leaves open (provider->tls and mould, what a link's attempts have in common, credential
 * and target ids). message:
 * what failed, for people. On failure the config is as it was and still the caller's. Main thread only. */
enum err snapshot_prepare(struct config *c, struct registry *registry, char *message, size_t message_cap) RM_MUST_USE;

#endif
