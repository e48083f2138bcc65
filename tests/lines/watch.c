/* Who touches which cache line. With -Dlines=true the rooms are compiled with calls around each access to memory (the
 * compiler's -fsanitize=thread, without its library): they end here. Each thread counts its reads and writes of each
 * line in cells of its own; at exit the lines that more than one thread touched and one of them wrote go to the file
 * named by RINGMAIN_LINES, one row for each thread that touched it, and before them one row a thread:
 *
 *     thread  number  function  locked instructions  mutexes taken
 *     line  address  thread  reads  read-from  writes  written-from             (code: offsets in the program, as text)
 *
 * What the C library and other libraries do inside is not seen, but for memcpy, memmove, memset and the taking of a
 * mutex, which are wrapped: a mutex that is taken is a write to its line. A thread's own stack is left out. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, THREADS_MAX = 12, N_CELLS = 1 << 20 };

struct count {
    uint32_t reads, writes;
    const char *read_from, *written_from;
};
struct cell {
    _Atomic uintptr_t line; /* 0 = free */
    struct count by[THREADS_MAX];
};

static struct cell cells[N_CELLS]; /* touched pages only cost memory */
static _Atomic unsigned n_threads;
static struct {
    _Alignas(LINE) const char *in; /* the first function that was seen */
    uint64_t locked, mutexes;
} threads[THREADS_MAX];
static _Thread_local unsigned me; /* number + 1 */
static _Thread_local uintptr_t stack_from, stack_to;

extern const char __executable_start[];

static void fail(const char *what)
{
    fprintf(stderr, "lines: %s\n", what);
    abort();
}

static void enlist(const char *code)
{
    pthread_attr_t attr;
    void *stack;
    size_t n;
    unsigned mine = atomic_fetch_add(&n_threads, 1);
    if (mine >= THREADS_MAX)
        fail("too many threads");
    threads[mine].in = code;
    me = mine + 1;
    if (pthread_getattr_np(pthread_self(), &attr) != 0 || pthread_attr_getstack(&attr, &stack, &n) != 0)
        fail("where is the stack?");
    stack_from = (uintptr_t)stack;
    stack_to = stack_from + n;
    pthread_attr_destroy(&attr);
}

static struct count *count_of(uintptr_t line, const char *code)
{
    if (me == 0)
        enlist(code);
    size_t i = (size_t)((line / LINE * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % N_CELLS;
    for (size_t n = 0; n < N_CELLS; n++, i = (i + 1) % N_CELLS) {
        uintptr_t is = atomic_load_explicit(&cells[i].line, memory_order_acquire);
        if (is == 0 && atomic_compare_exchange_strong(&cells[i].line, &is, line))
            is = line;
        if (is == line)
            return &cells[i].by[me - 1];
    }
    fail("too many lines");
    return NULL;
}

enum how { READ, WRITE, LOCKED };

static void touch(const volatile void *p, size_t n, enum how how, const char *code)
{
    uintptr_t from = (uintptr_t)p / LINE * LINE, end = (uintptr_t)p + n;
    if (n == 0 || ((uintptr_t)p >= stack_from && (uintptr_t)p < stack_to))
        return;
    threads[me != 0 ? me - 1 : 0].locked += how == LOCKED;
    for (; from < end; from += LINE) {
        struct count *c = count_of(from, code);
        if (how == READ) {
            c->reads++;
            c->read_from = code;
        } else {
            c->writes++;
            c->written_from = code;
        }
    }
}

#define HERE ((const char *)__builtin_return_address(0))
#define HOOK __attribute__((used, visibility("default")))

static ptrdiff_t offset(const char *code)
{
    return code != NULL ? code - __executable_start : 0;
}

static void write_row(FILE *f, const struct cell *c, unsigned i)
{
    const struct count *n = &c->by[i];
    if (n->reads + n->writes > 0)
        fprintf(f, "line %llx %u %u %tx %u %tx\n", (unsigned long long)c->line, i, n->reads, offset(n->read_from),
                n->writes, offset(n->written_from));
}

static bool is_shared(const struct cell *c)
{
    unsigned n = 0;
    bool is_written = false;
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        n += c->by[i].reads + c->by[i].writes > 0;
        is_written |= c->by[i].writes > 0;
    }
    return n > 1 && is_written;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("RINGMAIN_LINES");
    FILE *f = path != NULL ? fopen(path, "w") : NULL;
    if (f == NULL)
        return;
    for (unsigned t = 0; t < THREADS_MAX && threads[t].in != NULL; t++)
        fprintf(f, "thread %u %tx %llu %llu\n", t, offset(threads[t].in), (unsigned long long)threads[t].locked,
                (unsigned long long)threads[t].mutexes);
    for (size_t i = 0; i < N_CELLS; i++)
        for (unsigned t = 0; t < THREADS_MAX && is_shared(&cells[i]); t++)
            write_row(f, &cells[i], t);
    fclose(f);
}

/* ---- what the compiler calls ---- */

void __tsan_init(void);
HOOK void __tsan_init(void)
{
}
void __tsan_func_entry(void *from);
HOOK void __tsan_func_entry(void *from)
{
    if (me == 0)
        enlist(HERE);
}
void __tsan_func_exit(void);
HOOK void __tsan_func_exit(void)
{
}

#define PLAIN(n)                                \
    void __tsan_read##n(void *p);               \
    HOOK void __tsan_read##n(void *p)           \
    {                                           \
        touch(p, n, READ, HERE);                \
    }                                           \
    void __tsan_write##n(void *p);              \
    HOOK void __tsan_write##n(void *p)          \
    {                                           \
        touch(p, n, WRITE, HERE);               \
    }                                           \
    void __tsan_volatile_read##n(void *p);      \
    HOOK void __tsan_volatile_read##n(void *p)  \
    {                                           \
        touch(p, n, READ, HERE);                \
    }                                           \
    void __tsan_volatile_write##n(void *p);     \
    HOOK void __tsan_volatile_write##n(void *p) \
    {                                           \
        touch(p, n, WRITE, HERE);               \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define UNALIGNED(n)                             \
    void __tsan_unaligned_read##n(void *p);      \
    HOOK void __tsan_unaligned_read##n(void *p)  \
    {                                            \
        touch(p, n, READ, HERE);                 \
    }                                            \
    void __tsan_unaligned_write##n(void *p);     \
    HOOK void __tsan_unaligned_write##n(void *p) \
    {                                            \
        touch(p, n, WRITE, HERE);                \
    }
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

void __tsan_read_range(void *p, size_t n);
HOOK void __tsan_read_range(void *p, size_t n)
{
    touch(p, n, READ, HERE);
}
void __tsan_write_range(void *p, size_t n);
HOOK void __tsan_write_range(void *p, size_t n)
{
    touch(p, n, WRITE, HERE);
}

/* The order asked for is not kept but exceeded. */
#define LOCKED_OP(bits, name, builtin)                                                                        \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t v, int order);     \
    HOOK uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t v, int order) \
    {                                                                                                         \
        touch(p, bits / 8, LOCKED, HERE);                                                                     \
        return builtin(p, v, __ATOMIC_SEQ_CST);                                                               \
    }
#define SWAP(bits, name)                                                                                   \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *p, uint##bits##_t *is,      \
                                                      uint##bits##_t to, int order, int order_failed);     \
    HOOK int __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *p, uint##bits##_t *is, \
                                                           uint##bits##_t to, int order, int order_failed) \
    {                                                                                                      \
        touch(p, bits / 8, LOCKED, HERE);                                                                  \
        return __atomic_compare_exchange_n(p, is, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
    }
#define ATOMIC(bits)                                                                               \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order);        \
    HOOK uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order)    \
    {                                                                                              \
        touch(p, bits / 8, READ, HERE);                                                            \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                               \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order);     \
    HOOK void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order) \
    {                                                                                              \
        touch(p, bits / 8, WRITE, HERE);                                                           \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                  \
    }                                                                                              \
    LOCKED_OP(bits, exchange, __atomic_exchange_n)                                                 \
    LOCKED_OP(bits, fetch_add, __atomic_fetch_add)                                                 \
    LOCKED_OP(bits, fetch_sub, __atomic_fetch_sub)                                                 \
    LOCKED_OP(bits, fetch_and, __atomic_fetch_and)                                                 \
    LOCKED_OP(bits, fetch_or, __atomic_fetch_or)                                                   \
    LOCKED_OP(bits, fetch_xor, __atomic_fetch_xor)                                                 \
    SWAP(bits, strong)                                                                             \
    SWAP(bits, weak)
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void __tsan_atomic_thread_fence(int order);
HOOK void __tsan_atomic_thread_fence(int order)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- what the linker leads here (-Wl,--wrap) ---- */

void *__real_memcpy(void *to, const void *from, size_t n);
void *__wrap_memcpy(void *to, const void *from, size_t n);
HOOK void *__wrap_memcpy(void *to, const void *from, size_t n)
{
    touch(from, n, READ, HERE);
    touch(to, n, WRITE, HERE);
    return __real_memcpy(to, from, n);
}
void *__real_memmove(void *to, const void *from, size_t n);
void *__wrap_memmove(void *to, const void *from, size_t n);
HOOK void *__wrap_memmove(void *to, const void *from, size_t n)
{
    touch(from, n, READ, HERE);
    touch(to, n, WRITE, HERE);
    return __real_memmove(to, from, n);
}
void *__real_memset(void *to, int c, size_t n);
void *__wrap_memset(void *to, int c, size_t n);
HOOK void *__wrap_memset(void *to, int c, size_t n)
{
    touch(to, n, WRITE, HERE);
    return __real_memset(to, c, n);
}
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
HOOK int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    touch(m, sizeof *m, LOCKED, HERE);
    threads[me != 0 ? me - 1 : 0].mutexes++;
    return __real_pthread_mutex_lock(m);
}
