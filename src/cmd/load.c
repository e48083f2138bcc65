#include "cmd/load.h"

#include "base/mem.h"
#include "dialect/dialect.h"
#include "price/price.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = (4 << 20) + 1, READ_BYTES = 64 * 1024 }; /* one over, so that config can say it is too large */
enum { NAMED_BYTES_MAX = 64 << 20 };                             /* of a file that a setting names: a price book */

/* ---- files ---- */

bool load_bytes(const char *path, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = 1;
    while (n > 0 && out->n < out->max) {
        size_t room = out->max - out->n < READ_BYTES ? out->max - out->n : READ_BYTES;
        n = read(fd, buf_reserve(out, room), room);
        if (n > 0)
            buf_grew(out, (size_t)n);
        else if (n < 0 && errno == EINTR)
            n = 1;
    }
    int error = errno;
    close(fd);
    errno = error;
    return n >= 0;
}

/* It may hold keys. */
static void scrub(struct buf *b)
{
    if (b->p != NULL)
        explicit_bzero(b->p, b->cap);
    buf_fini(b);
}

/* One that is too large is not read in part. */
static enum err read_named_file(const char *path, struct arena *a, struct bytes *out)
{
    struct buf content = {.max = NAMED_BYTES_MAX};
    bool is_read = load_bytes(path, &content) && content.n < content.max;
    if (is_read)
        *out = arena_dup(a, buf_bytes(&content));
    scrub(&content);
    return is_read ? ERR_OK : ERR_IO;
}

static bool is_world_readable(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && (s.st_mode & S_IROTH) != 0;
}

/* ---- the machine ---- */

static uint32_t n_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    return 1;
}

/* What a container is allowed, where there is one; "max" and a missing file are no bound. */
static uint64_t cgroup_memory(void)
{
    struct buf text = {.max = 64};
    uint64_t v = 0;
    if (!load_bytes("/sys/fs/cgroup/memory.max", &text) || !bytes_to_u64(bytes_trim(buf_bytes(&text)), &v))
        v = 0;
    buf_fini(&text);
    return v;
}

static uint64_t memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_C(1) << 30;
    uint64_t container = cgroup_memory();
    return container > 0 && container < machine ? container : machine;
}

/* ---- what config may not see ---- */

struct surroundings {
    struct price_book *book;
    int64_t wall_ms;
};

static const char *look_up_variable(const char *name, void *arg)
{
    return getenv(name);
}

static void look_up_fare(const char *provider, const char *vendor, const char *model, struct arena *a, struct fare *out,
                         void *arg)
{
    const struct surroundings *s = arg;
    price_book_fare(s->book, provider, vendor, model, PRICE_LAYER_BUILTIN, a, out);
}

static int64_t wall_ms_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void tell_unreadable(const char *path, int error, struct config_faults *faults)
{
    *faults = (struct config_faults){0};
    struct arena *a = &faults->arena;
    faults->v = ARENA_NEW(a, struct config_fault);
    faults->v[0] = (struct config_fault){.file = arena_dup(a, bytes_of(path)).p,
                                         .message = arena_printf(a, "cannot be read: %s", strerror(error)).p};
    faults->n = faults->n_errors = 1;
}

/* A relative path means the folder the program was started in: resolved once, so that all readers agree. */
static void make_absolute(struct config *c)
{
    char here[PATH_MAX];
    if (c->ledger[0] == '\0' || c->ledger[0] == '/' || getcwd(here, sizeof here) == NULL)
        return;
    c->ledger = arena_printf(&c->arena, "%s/%s", here, c->ledger).p;
}

enum err config_load_file(const char *path, struct config_faults *faults, struct config **out)
{
    static const char *const dialects[] = {"openai", "anthropic", NULL};
    struct buf text = {.max = FILE_BYTES_MAX};
    *out = NULL;
    if (!load_bytes(path, &text)) {
        tell_unreadable(path, errno, faults);
        scrub(&text);
        return ERR_IO;
    }
    struct surroundings around = {price_book_builtin(), wall_ms_now()};
    const struct config_known known = {.dialects = dialects,
                                       .vendors = vendor_names(),
                                       .cores = n_cores(),
                                       .memory_bytes = memory_bytes(),
                                       .getenv = look_up_variable,
                                       .arg = &around,
                                       .fare = look_up_fare,
                                       .wall_ms = around.wall_ms,
                                       .vendor_from_host = vendor_from_host,
                                       .is_world_readable = is_world_readable};
    enum err err = config_parse(buf_bytes(&text), path, &known, read_named_file, out, faults);
    price_book_free(around.book);
    scrub(&text);
    if (err == ERR_OK)
        make_absolute(*out);
    return err;
}
