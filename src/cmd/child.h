/* Child processes for the tools that show and measure: this program itself under another subcommand (mock, serve), each
 * in a process group of its own, so that Ctrl-C is the tool's business and not theirs. */
#ifndef RM_CMD_CHILD_H
#define RM_CMD_CHILD_H

#include "lab/caller.h"

#include <signal.h>
#include <sys/types.h>

/* Of a folder's path, and of a path in it. */
enum { CHILD_DIR_BYTES = 256, CHILD_PATH_BYTES = CHILD_DIR_BYTES + 32 };

/* Ports of the loopback that are free now, all different; false when the kernel gives none. */
bool child_free_ports(uint16_t *ports, size_t n);
/* A folder of its own for configs and logs: "ringmain-NAME-XXXXXX" in TMPDIR, or in /tmp when that is not set or long.
 * NAME has at most 8 bytes. False: errno says why. */
bool child_dir(const char *name, char dir[CHILD_DIR_BYTES]);
/* Removes a folder of child_dir with the files in it. */
void child_dir_remove(const char *dir);
/* What ends a tool that has children: Ctrl-C, SIGTERM, and the terminal's going away unless that is ignored (nohup). */
void child_stop_signals(sigset_t *set);
/* Starts argv (argv[0] "ringmain", then the subcommand; NULL at the end) as this very program. What it prints goes to
 * the end of the file `log`. -1 when it cannot be started. End it with child_end; should this process be killed, the
 * kernel asks the child to end. */
pid_t child_start(const char *const argv[], const char *log);
/* True while it runs; a child that has ended is waited for (pid becomes 0). */
bool child_is_alive(pid_t *pid);
/* Asks it to end, waits about five seconds, then kills. pid <= 0: nothing. */
void child_end(pid_t pid);
/* A hundredth of a second. */
void child_nap(void);
/* GET path on the loopback until the answer is 200, for at most about five seconds of naps; *out lives in the arena. */
bool child_wait_for_ok(struct caller *c, uint16_t port, const char *path, struct arena *a, struct caller_answer *out);

#endif
