#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int min_level = LOG_INFO;
static char traced[8][16];
static int n_traced;
_Atomic bool log_traces;

static void note_traces(void)
{
    atomic_store(&log_traces, n_traced > 0 || atomic_load(&min_level) <= LOG_TRACE);
}

void log_set_level(enum log_level level)
{
    atomic_store(&min_level, (int)level);
    note_traces();
}

void log_trace_room(const char *room)
{
    if (n_traced < (int)RM_COUNTOF(traced))
        snprintf(traced[n_traced++], sizeof traced[0], "%s", room);
    note_traces();
}

bool log_is_on(enum log_level level, const char *room)
{
    if ((int)level >= atomic_load_explicit(&min_level, memory_order_relaxed))
        return true;
    for (int i = 0; i < n_traced; i++)
        if (strcmp(traced[i], "all") == 0 || strcmp(traced[i], room) == 0)
            return true;
    return false;
}

static size_t escape(char *out, size_t cap, const char *in)
{
    size_t n = 0;
    for (; *in != '\0' && n + 5 < cap; in++) {
        unsigned char c = (unsigned char)*in;
        if (c < 0x20 || c == 0x7f)
            n += (size_t)snprintf(out + n, cap - n, "\\x%02x", c);
        else if (c == '"' || c == '\\') {
            out[n++] = '\\';
            out[n++] = (char)c;
        } else
            out[n++] = (char)c;
    }
    out[n] = '\0';
    return n;
}

void log_line(enum log_level level, const char *room, const char *id, const char *fmt, ...)
{
    static const char *const names[] = {"trace", "debug", "info", "warn", "error"};
    char text[1024], safe[2048], line[2304];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    escape(safe, sizeof safe, text);
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    int n = snprintf(line, sizeof line, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ level=%s room=%s request=%s msg=\"%s\"\n",
                     tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                     now.tv_nsec / 1000000, names[level], room, id, safe);
    if (n > (int)sizeof line - 1)
        n = (int)sizeof line - 1;
    ssize_t ignored = write(2, line, (size_t)n);
    (void)ignored;
}
