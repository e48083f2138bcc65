/* The configuration as the program loads it: file, environment, machine and price book are brought together here, for
 * `check` and for `serve` and its reloads. */
#ifndef RM_CMD_LOAD_H
#define RM_CMD_LOAD_H

#include "config/config.h"

/* Reads and checks the file. ERR_OK: *out is a snapshot with one reference, its ledger path absolute; *faults may hold
 * warnings. Else *out is NULL and *faults has at least one error, also when the file cannot be read. The caller
 * releases *faults by config_faults_fini in either case. Prices are those of today. Any thread. */
enum err config_load_file(const char *path, struct config_faults *faults, struct config **out) RM_MUST_USE;

/* Reads a file into *out, whose max bounds it: a longer one is cut there. errno tells why on failure. */
bool load_bytes(const char *path, struct buf *out) RM_MUST_USE;

#endif
