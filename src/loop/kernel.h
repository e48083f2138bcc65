/* A system call without the C library's wrapper: recv, send and epoll_wait are points there where a thread can be
 * cancelled, which takes two locked instructions in a process with threads, for a cancel that nobody here sends; and
 * syscall() moves each argument to another register. For the calls of a chunk's path. */
#ifndef RM_LOOP_KERNEL_H
#define RM_LOOP_KERNEL_H

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's own answer: -errno where it refuses. errno itself stays as it is, or is set; nobody may rely on it.
 * Where the kernel reads a fifth and sixth argument, they are 0. */
static inline long kernel_call(long number, long a, const void *b, long c, long d)
{
#if defined(__x86_64__) && !defined(__ILP32__)
    long r;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = 0, r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
#else
    long r = syscall(number, a, b, c, d, NULL, (size_t)0);
    return r < 0 ? -errno : r;
#endif
}

#endif
