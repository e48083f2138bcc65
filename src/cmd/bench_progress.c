#include "cmd/bench.h"

#include "lab/dist.h"

#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_CELLS = 30 };

void bench_progress_init(struct bench_progress *p, unsigned n_steps, unsigned rounds)
{
    *p = (struct bench_progress){.is_terminal = isatty(2), .n_steps = n_steps, .rounds = rounds, .title = ""};
}

void bench_progress_step(struct bench_progress *p, unsigned round, const char *title)
{
    p->n_begun++;
    p->round = round;
    p->title = title;
    bench_progress_tick(p, NULL);
}

/* Never longer than the terminal is wide: a line that wraps is not wiped. */
static void show_line(struct bytes line)
{
    struct winsize w;
    if (ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col > 1)
        line = bytes_slice(line, 0, w.ws_col - 1U);
    fprintf(stderr, "\r\033[K%.*s", (int)line.n, line.p);
    fflush(stderr);
}

void bench_progress_tick(const struct bench_progress *p, const struct load_progress *l)
{
    if (!p->is_terminal)
        return;
    double part = l != NULL && l->n > 0 ? (double)l->n_done / (double)l->n : 0;
    double done = p->n_begun > 0 ? ((double)p->n_begun - 1 + part) / p->n_steps : 0;
    int cells = (int)(done * BAR_CELLS);
    char bar[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < cells ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    struct buf line = {0};
    buf_printf(&line, "[%s] %3.0f %%  ", bar, 100 * done);
    if (p->rounds > 0)
        buf_printf(&line, "round %u of %u  ", p->round + 1, p->rounds);
    buf_puts(&line, p->n_begun > 0 ? p->title : "warming up");
    if (l != NULL && p->n_begun > 0)
        buf_printf(&line, "  %llu of %llu%s", (unsigned long long)l->n_done, (unsigned long long)l->n,
                   l->n_failed > 0 ? ", some failed" : "");
    show_line(buf_bytes(&line));
    buf_fini(&line);
}

void bench_progress_end(struct bench_progress *p, const struct sample *v, size_t n)
{
    struct dist ttft = {0};
    size_t n_failed = 0;
    if (p->is_terminal)
        return;
    for (size_t i = 0; i < n; i++) {
        n_failed += !v[i].is_ok;
        if (v[i].is_ok)
            dist_put(&ttft, (int64_t)(v[i].first_us - v[i].due_us), 0);
    }
    dist_sort(&ttft);
    double p50 = dist_percentile_ms(&ttft, 50);
    fprintf(stderr, "round %u of %u: %s: %zu requests, %zu failed", p->round + 1, p->rounds, p->title, n, n_failed);
    if (!isnan(p50))
        fprintf(stderr, ", first token p50 %.1f ms", p50);
    fputc('\n', stderr);
    dist_fini(&ttft);
}

void bench_progress_fini(struct bench_progress *p)
{
    if (p->is_terminal)
        fputs("\r\033[K", stderr);
    fflush(stderr);
}
