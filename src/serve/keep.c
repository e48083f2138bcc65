/* Times: the monotonic clock of another life says nothing here, so the file tells what was left of them, and the wall
 * clock how long we were away. A wall clock that went back counts as no time away. */
#include "serve/keep.h"

#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 64 << 20, READ_STEP = 65536, VERSION = 1, HASH_DIGITS = 16 };
#define HASH_SEED UINT64_C(0x72696e676d61696e)

static uint64_t hash_of(struct bytes text)
{
    return bytes_hash(text, HASH_SEED);
}

void keep_text(const struct kept *k, struct buf *out)
{
    buf_printf(out, "ringmain-state %d %lld\n", VERSION, (long long)k->wall_ms);
    registry_write(k->registry, k->now_us, out);
    latency_write(k->latency, k->registry, k->now_us, out);
    ratio_write(k->ratios, k->registry, out);
    for (size_t i = 0; i < k->n_caches; i++)
        prefixes_write(k->caches[i]->prefixes, k->registry, k->now_us, out);
    uint64_t hash = hash_of(buf_bytes(out));
    buf_printf(out, "end %016llx\n", (unsigned long long)hash);
}

/* What stands before the line of the hash; false = that is not what was written. */
static bool check_hash(struct bytes *text)
{
    const size_t n = sizeof "end \n" - 1 + HASH_DIGITS;
    char want[HASH_DIGITS + sizeof "end \n"];
    if (text->n < n)
        return false;
    struct bytes end = bytes_slice(*text, text->n - n, text->n);
    text->n -= n;
    snprintf(want, sizeof want, "end %016llx\n", (unsigned long long)hash_of(*text));
    return bytes_is(end, want);
}

static bool take_head(struct bytes *text, int64_t *wall_ms)
{
    struct bytes line = bytes_cut(text, '\n');
    uint64_t version;
    return bytes_is(bytes_cut(&line, ' '), "ringmain-state") && bytes_to_u64(bytes_cut(&line, ' '), &version) &&
           version == VERSION && bytes_to_i64(line, wall_ms);
}

bool keep_lines(struct bytes text, struct bytes *lines, int64_t *wall_ms)
{
    if (!check_hash(&text) || !take_head(&text, wall_ms))
        return false;
    *lines = text;
    return true;
}

/* A conversation may come back to any core. */
static enum err take_prefix(const struct kept *k, struct bytes line, uint64_t away_us)
{
    enum err e = ERR_OK;
    for (size_t i = 0; i < k->n_caches && e == ERR_OK; i++)
        e = prefixes_read_line(k->caches[i]->prefixes, k->registry, line, away_us, k->now_us);
    return e;
}

static enum err take_line(const struct kept *k, struct bytes line, uint64_t away_us)
{
    if (bytes_starts_with(line, BYTES("latency ")))
        return latency_read_line(k->latency, k->registry, line, away_us, k->now_us);
    if (bytes_starts_with(line, BYTES("ratio ")))
        return ratio_read_line(k->ratios, k->registry, line);
    if (bytes_starts_with(line, BYTES("prefix ")) || bytes_starts_with(line, BYTES("warm ")))
        return take_prefix(k, line, away_us);
    return registry_read(k->registry, line, k->now_us > away_us ? k->now_us - away_us : 0);
}

enum err keep_take(const struct kept *k, struct bytes text)
{
    int64_t wall_ms;
    enum err worst = ERR_OK;
    if (!keep_lines(text, &text, &wall_ms))
        return ERR_SYNTAX;
    uint64_t away_us = k->wall_ms > wall_ms ? (uint64_t)(k->wall_ms - wall_ms) * 1000 : 0;
    while (text.n > 0) {
        struct bytes line = bytes_cut(&text, '\n');
        enum err e = take_line(k, line, away_us);
        worst = e != ERR_OK ? e : worst;
    }
    return worst;
}

/* ---- the file ---- */

static void path_of(const char *ledger_path, const char *more, char *out, size_t cap)
{
    snprintf(out, cap, "%s.state%s", ledger_path, more);
}

static bool read_file(const char *path, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 1;
    char *room;
    while (fd >= 0 && n > 0 && (room = buf_reserve(out, READ_STEP)) != NULL) {
        n = read(fd, room, READ_STEP);
        if (n > 0)
            buf_grew(out, (size_t)n);
    }
    if (fd >= 0)
        close(fd);
    return fd >= 0 && n == 0;
}

static void set_aside(const char *ledger_path, const char *path, const char *why)
{
    char aside[4200];
    path_of(ledger_path, ".damaged", aside, sizeof aside);
    bool is_moved = rename(path, aside) == 0;
    LOG(LOG_WARN, "serve", "-", "%s is %s and not used%s%s; health and latencies are learned anew", path, why,
        is_moved ? "; it is now " : "", is_moved ? aside : "");
}

void keep_load(const struct kept *k, const char *ledger_path)
{
    char path[4200];
    struct buf text = {.max = FILE_MAX};
    if (ledger_path[0] == '\0')
        return;
    path_of(ledger_path, "", path, sizeof path);
    errno = 0;
    if (!read_file(path, &text)) {
        if (errno != ENOENT)
            set_aside(ledger_path, path, text.overflow ? "too large" : "not readable");
    } else {
        enum err e = keep_take(k, buf_bytes(&text));
        if (e == ERR_LIMIT)
            LOG(LOG_WARN, "serve", "-", "%s holds more targets than this process can follow", path);
        else if (e != ERR_OK)
            set_aside(ledger_path, path, "damaged");
    }
    buf_fini(&text);
}

static bool write_file(const char *path, struct bytes text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    while (fd >= 0 && text.n > 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        text = bytes_slice(text, (size_t)n, text.n);
    }
    bool ok = fd >= 0 && text.n == 0 && fsync(fd) == 0;
    if (fd >= 0)
        ok = close(fd) == 0 && ok;
    return ok;
}

bool keep_save(const struct kept *k, const char *ledger_path)
{
    char path[4200], beside[4200];
    struct buf text = {0};
    if (ledger_path[0] == '\0')
        return true;
    path_of(ledger_path, "", path, sizeof path);
    path_of(ledger_path, ".new", beside, sizeof beside);
    keep_text(k, &text);
    bool ok = write_file(beside, buf_bytes(&text)) && rename(beside, path) == 0;
    if (!ok)
        LOG(LOG_WARN, "serve", "-", "%s cannot be written: %s", path, strerror(errno));
    buf_fini(&text);
    return ok;
}
