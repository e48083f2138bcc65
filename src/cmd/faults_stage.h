/* What `bench faults` tests when no other gateway is named: the pretend provider and this gateway as child processes,
 * in a folder of their own, with the shipped configuration or one that is given. */
#ifndef RM_CMD_FAULTS_STAGE_H
#define RM_CMD_FAULTS_STAGE_H

#include "cmd/child.h"

struct faults_stage {
    char dir[CHILD_DIR_BYTES], config[CHILD_PATH_BYTES];
    uint16_t wall_port, gateway_port;
    pid_t wall, gateway;
    bool is_started; /* there may be logs */
};

/* config NULL = bench/failover-bench.yaml, which is built in. False: what is wrong has been printed to stderr; *s must
 * be ended all the same. */
bool faults_stage_start(struct faults_stage *s, const char *config, unsigned speed);
/* Ends the processes. is_good, or nothing was started: and removes the folder; else it stays and is named, for its
 * logs.
 */
void faults_stage_end(struct faults_stage *s, bool is_good);
/* False: one of the processes has ended by itself; stderr says which. */
bool faults_stage_is_alive(struct faults_stage *s);

#endif
