/* Assertions that stay on in release. A failed one is a programmer's mistake: the process says where and stops. */
#ifndef RM_BASE_CHECK_H
#define RM_BASE_CHECK_H

/* Prints "file:line: what" to stderr and aborts. Async-signal-safe. */
_Noreturn void check_failed(const char *file, int line, const char *what);

#define RM_ASSERT(cond) ((cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))
#define RM_UNREACHABLE() check_failed(__FILE__, __LINE__, "unreachable")

#define RM_MUST_USE __attribute__((warn_unused_result))
#define RM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define RM_COUNTOF(a) (sizeof(a) / sizeof((a)[0]))
#define RM_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
