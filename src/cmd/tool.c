#include "cmd/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loop *tool_loop(const char *command)
{
    struct loop *l = loop_new();
    if (l == NULL) {
        fprintf(stderr, "ringmain %s: the system grants no event loop (epoll, eventfd): %s\n", command,
                strerror(errno));
        exit(1);
    }
    return l;
}
