/* The buffer begins at a line's first byte; `sent` bytes of that line are in the file already:
 *
 *     file: … LF  {"id":"req_1","ti          waiting: {"id":"req_1","time":…} LF {"id":"req_2" … LF
 *                                                      ^ sent = 15 ---^
 *
 * So a short write can be finished later, or taken back (ftruncate), and a reopened file begins with a whole line. */
#include "ledger/access_log.h"

#include "base/mem.h"
#include "base/text.h"
#include "codec/json_write.h"

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

/* ---- the line: names are literals, numbers and texts are written where they will stand ---- */

static void text(struct json_writer *w, struct bytes name, const char *v)
{
    jw_name(w, name);
    if (v == NULL || *v == '\0')
        jw_null(w);
    else
        jw_cstr(w, v);
}

static void number(struct json_writer *w, struct bytes name, int64_t v, bool is_there)
{
    jw_name(w, name);
    if (is_there)
        jw_int(w, v);
    else
        jw_null(w);
}

static void count(struct json_writer *w, struct bytes name, int64_t v)
{
    number(w, name, v, v >= 0);
}

static void usd(struct json_writer *w, struct bytes name, int64_t nusd)
{
    jw_name(w, name);
    if (nusd == NUSD_UNKNOWN)
        jw_null(w);
    else
        text_usd(jw_place(w), nusd);
}

void access_log_line(const struct packed *p, struct buf *out)
{
    struct json_writer w;
    const struct request_record *rec = &p->record;
    char id[TEXT_ID_BYTES], time[TEXT_TIME_BYTES];
    text_id(rec->id, id);
    text_time(rec->started_wall_ms, time);
    jw_init(&w, out);
    jw_object(&w);
    text(&w, JW_NAME("id"), id);
    text(&w, JW_NAME("time"), time);
    text(&w, JW_NAME("key"), rec->key);
    text(&w, JW_NAME("route"), rec->route);
    text(&w, JW_NAME("dialect"), rec->dialect);
    jw_name(&w, JW_NAME("stream"));
    jw_bool(&w, rec->is_stream);
    number(&w, JW_NAME("status"), rec->status, rec->status != 0);
    text(&w, JW_NAME("outcome"), outcome_word(rec->outcome));
    text(&w, JW_NAME("provider"), rec->provider);
    text(&w, JW_NAME("model"), rec->model);
    count(&w, JW_NAME("attempts"), rec->n_started);
    number(&w, JW_NAME("ttft_ms"), rec->ttft_us / 1000, rec->ttft_us >= 0);
    number(&w, JW_NAME("total_ms"), rec->total_us / 1000, rec->total_us >= 0);
    count(&w, JW_NAME("input"), p->served_input);
    count(&w, JW_NAME("output"), p->served_output);
    usd(&w, JW_NAME("cost_usd"), rec->cost_nusd);
    usd(&w, JW_NAME("waste_usd"), rec->waste_nusd);
    jw_end(&w);
}
