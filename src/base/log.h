/* One log line on stderr: key=value, request id and room first. Never a secret: pass names, not values.
 *
 *     2026-11-30T07:00:00.123Z level=warn room=serve request=req_… msg="…" */
#ifndef RM_BASE_LOG_H
#define RM_BASE_LOG_H

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>

enum log_level { LOG_TRACE, LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Lines below this level are dropped. Default LOG_INFO. Set once at start. */
void log_set_level(enum log_level level);
/* Turns trace lines of one room on ("relay"), or of all ("all"). */
void log_trace_room(const char *room);
/* Any room's trace lines are on. */
extern _Atomic bool log_traces;
static inline bool log_is_tracing(void)
{
    return atomic_load_explicit(&log_traces, memory_order_relaxed);
}
bool log_is_on(enum log_level level, const char *room);
/* `room` names the source room, `id` the request or "-". Control characters in the message are escaped. Any thread. */
void log_line(enum log_level level, const char *room, const char *id, const char *fmt, ...) RM_PRINTF(4, 5);

#define LOG(level, room, id, ...)                         \
    do {                                                  \
        if (log_is_on((level), (room)))                   \
            log_line((level), (room), (id), __VA_ARGS__); \
    } while (0)

#endif
