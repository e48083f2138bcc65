/* What the subcommands that are no gateway start with. */
#ifndef RM_CMD_TOOL_H
#define RM_CMD_TOOL_H

#include "loop/loop.h"

/* A loop; where the system grants none, a line that says why, and exit code 1. Nothing else may have been started. */
struct loop *tool_loop(const char *command);

#endif
