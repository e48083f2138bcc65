/* The buffer begins at a line's first byte; `sent` bytes of that line are in the file already:
 *
 *     file: … LF  {"id":"req_1","ti          waiting: {"id":"req_1","time":…} LF {"id":"req_2" … LF
 *                                                      ^ sent = 15 ---^
 *
 * So a short write can be finished later, or taken back (ftruncate), and a reopened file begins with a whole line. */
#include "ledger/access_log.h"

#include "base/mem.h"
#include "base/text.h"
#include "codec/json_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct access_log {
    char *path; /* NULL = standard output */
    int fd;
    struct buf waiting;
    size_t sent;
    int error;
};

static int open_path(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}

enum err access_log_open(const char *where, struct access_log **out, char *message, size_t message_cap)
{
    *out = NULL;
    bool is_stdout = strcmp(where, "stdout") == 0;
    int fd = is_stdout ? STDOUT_FILENO : open_path(where);
    if (fd < 0) {
        snprintf(message, message_cap, "access log %s: %s", where, strerror(errno));
        return ERR_IO;
    }
    struct access_log *log = mem_zalloc(sizeof *log);
    log->path = is_stdout ? NULL : mem_dup(where, strlen(where));
    log->fd = fd;
    *out = log;
    return ERR_OK;
}

/* Takes the begun line back out of a regular file. */
static void take_back(struct access_log *log)
{
    struct stat st;
    if (log->sent == 0 || fstat(log->fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)log->sent)
        return;
    if (ftruncate(log->fd, st.st_size - (off_t)log->sent) == 0)
        log->sent = 0;
}

void access_log_close(struct access_log *log)
{
    if (log == NULL)
        return;
    if (!access_log_flush(log))
        take_back(log);
    if (log->path != NULL)
        close(log->fd);
    mem_free(log->path);
    buf_fini(&log->waiting);
    mem_free(log);
}

enum err access_log_reopen(struct access_log *log)
{
    if (log->path == NULL)
        return ERR_OK;
    int fd = open_path(log->path);
    if (fd < 0)
        return ERR_IO;
    if (!access_log_flush(log)) {
        take_back(log);
        log->sent = 0; /* the new file gets the line whole */
    }
    close(log->fd);
    log->fd = fd;
    return ERR_OK;
}

void access_log_add(struct access_log *log, const struct packed *p)
{
    access_log_line(p, &log->waiting);
    buf_putc(&log->waiting, '\n');
}

/* Drops what is written, up to the start of the line that is not whole yet. */
static void settle(struct access_log *log)
{
    size_t whole = log->sent;
    while (whole > 0 && log->waiting.p[whole - 1] != '\n')
        whole--;
    buf_drop(&log->waiting, whole);
    log->sent -= whole;
}

bool access_log_flush(struct access_log *log)
{
    while (log->sent < log->waiting.n) {
        ssize_t n = write(log->fd, log->waiting.p + log->sent, log->waiting.n - log->sent);
        if (n < 0 && errno == EINTR)
            continue;
        log->error = n < 0 ? errno : n == 0 ? ENOSPC : 0;
        if (n <= 0)
            break;
        log->sent += (size_t)n;
    }
    settle(log);
    return log->waiting.n == 0;
}

int access_log_errno(const struct access_log *log)
{
    return log->error;
}

/* ---- the line ---- */

static void usd(struct json_line *l, int64_t nusd)
{
    if (nusd == NUSD_UNKNOWN)
        jl_put(l, BYTES("null"));
    else
        l->at = text_usd_at(jl_room(l, TEXT_USD_BYTES), nusd);
}

static void put_who(struct json_line *l, const struct request_record *rec)
{
    jl_put(l, BYTES(",\"key\":"));
    jl_text(l, rec->key);
    jl_put(l, BYTES(",\"route\":"));
    jl_text(l, rec->route);
    jl_put(l, BYTES(",\"dialect\":"));
    jl_text(l, rec->dialect);
    jl_put(l, rec->is_stream ? BYTES(",\"stream\":true,\"status\":") : BYTES(",\"stream\":false,\"status\":"));
    jl_known(l, rec->status, rec->status != 0);
    jl_put(l, BYTES(",\"outcome\":"));
    jl_text(l, outcome_word(rec->outcome));
    jl_put(l, BYTES(",\"provider\":"));
    jl_text(l, rec->provider);
    jl_put(l, BYTES(",\"model\":"));
    jl_text(l, rec->model);
}

static void put_figures(struct json_line *l, const struct packed *p)
{
    const struct request_record *rec = &p->record;
    jl_put(l, BYTES(",\"attempts\":"));
    jl_put_int(l, rec->n_started);
    jl_put(l, BYTES(",\"ttft_ms\":"));
    jl_known(l, rec->ttft_us / 1000, rec->ttft_us >= 0);
    jl_put(l, BYTES(",\"total_ms\":"));
    jl_known(l, rec->total_us / 1000, rec->total_us >= 0);
    jl_put(l, BYTES(",\"input\":"));
    jl_known(l, p->served_input, p->served_input >= 0);
    jl_put(l, BYTES(",\"output\":"));
    jl_known(l, p->served_output, p->served_output >= 0);
    jl_put(l, BYTES(",\"cost_usd\":"));
    usd(l, rec->cost_nusd);
    jl_put(l, BYTES(",\"waste_usd\":"));
    usd(l, rec->waste_nusd);
}

void access_log_line(const struct packed *p, struct buf *out)
{
    struct json_line l;
    char id[TEXT_ID_BYTES], time[TEXT_TIME_BYTES];
    text_id(p->record.id, id);
    text_time(p->record.started_wall_ms, time);
    jl_begin(&l, out);
    jl_put(&l, BYTES("{\"id\":\""));
    jl_put(&l, bytes_from(id, TEXT_ID_BYTES - 1));
    jl_put(&l, BYTES("\",\"time\":\""));
    jl_put(&l, bytes_from(time, TEXT_TIME_BYTES - 1));
    jl_put(&l, BYTES("\""));
    put_who(&l, &p->record);
    put_figures(&l, p);
    jl_put(&l, BYTES("}"));
    jl_end(&l);
}
