/* Files that are either whole or not there, and the file of rounds. */
#include "cmd/bench.h"

#include "lab/rounds.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_to(FILE *f, struct bytes text, bool is_regular)
{
    bool ok = fwrite(text.p, 1, text.n, f) == text.n && fflush(f) == 0;
    int e = errno;
    if (ok && is_regular && fsync(fileno(f)) != 0) {
        ok = false;
        e = errno;
    }
    if (fclose(f) != 0 && ok) {
        ok = false;
        e = errno;
    }
    errno = e;
    return ok;
}

static bool write_whole(const char *path, struct bytes text)
{
    char beside[4096];
    if (snprintf(beside, sizeof beside, "%s.new-%ld", path, (long)getpid()) >= (int)sizeof beside) {
        errno = ENAMETOOLONG;
        return false;
    }
    FILE *f = fopen(beside, "w");
    if (f == NULL)
        return false;
    bool ok = write_to(f, text, true) && rename(beside, path) == 0;
    if (!ok) {
        int e = errno;
        unlink(beside);
        errno = e;
    }
    return ok;
}

bool bench_write(const char *path, struct bytes text)
{
    struct stat st;
    bool ok;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        FILE *f = fopen(path, "w");
        ok = f != NULL && write_to(f, text, false);
    } else {
        ok = write_whole(path, text);
    }
    if (!ok)
        fprintf(stderr, "ringmain bench: %s: %s\n", path, strerror(errno));
    return ok;
}

/* The file itself is not touched: an old one stays until the new one is whole. */
bool bench_can_write(const char *path)
{
    char beside[4096];
    struct stat st;
    int fd;
    bool is_there = stat(path, &st) == 0;
    if (is_there && !S_ISREG(st.st_mode)) {
        fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    } else if (snprintf(beside, sizeof beside, "%s.new-%ld", path, (long)getpid()) >= (int)sizeof beside) {
        errno = ENAMETOOLONG;
        fd = -1;
    } else {
        fd = open(beside, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0)
            unlink(beside);
    }
    if (fd < 0)
        fprintf(stderr, "ringmain bench: %s: %s\n", path, strerror(errno));
    else
        close(fd);
    return fd >= 0;
}

bool bench_read(const char *path, struct buf *out)
{
    char part[65536];
    size_t n;
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        buf_put(out, bytes_from(part, n));
    bool ok = ferror(f) == 0;
    fclose(f);
    return ok;
}

/* ---- rounds of other days ---- */

bool bench_rounds_load(const struct bench_options *o, struct result *r, unsigned *n_rounds)
{
    struct buf text = {0};
    const char *why = NULL;
    *n_rounds = 0;
    if (o->resume_file == NULL)
        return true;
    if (!bench_read(o->resume_file, &text))
        why = errno == ENOENT ? NULL : strerror(errno);
    else
        rounds_read(buf_bytes(&text), r, n_rounds, &why);
    buf_fini(&text);
    if (why != NULL)
        fprintf(stderr, "ringmain bench: %s: %s\n", o->resume_file, why);
    return why == NULL;
}

bool bench_rounds_save(const struct bench_options *o, const struct result *r, unsigned n_rounds)
{
    if (o->resume_file == NULL)
        return true;
    struct buf text = {0};
    rounds_json(r, n_rounds, &text);
    bool ok = bench_write(o->resume_file, buf_bytes(&text));
    buf_fini(&text);
    return ok;
}
