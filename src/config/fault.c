#include "config/fault.h"

#include <stdio.h>

enum { MESSAGE_MAX = 700, QUOTE_MAX = 80, NEAR_MAX = 3 };

static void add(struct fault_log *log, struct place at, bool is_warning, const char *text)
{
    struct config_faults *f = log->faults;
    if (!is_warning)
        f->n_errors++;
    if (f->n == FAULTS_MAX)
        return;
    if (f->n == log->cap) {
        size_t cap = log->cap == 0 ? 16 : log->cap * 2;
        struct config_fault *v = ARENA_ARRAY(&f->arena, struct config_fault, cap);
        if (f->n > 0)
            memcpy(v, f->v, sizeof *v * f->n);
        f->v = v;
        log->cap = cap;
    }
    f->v[f->n++] = (struct config_fault){is_warning, log->file, at.line, at.column, text};
}

static const char *compose(struct fault_log *log, const char *fmt, va_list args)
{
    char line[MESSAGE_MAX];
    int n = vsnprintf(line, sizeof line, fmt, args);
    size_t used = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    return arena_dup(&log->faults->arena, bytes_from(line, used)).p;
}

void fault_error(struct fault_log *log, struct place at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(log, at, false, compose(log, fmt, args));
    va_end(args);
}

void fault_warning(struct fault_log *log, struct place at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(log, at, true, compose(log, fmt, args));
    va_end(args);
}

static bool stands_after(const struct config_fault *a, const struct config_fault *b)
{
    return a->line != b->line ? a->line > b->line : a->column > b->column;
}

/* By insertion: few, nearly in order, and equal places keep theirs. */
void fault_sort(struct config_faults *f)
{
    for (size_t i = 1; i < f->n; i++) {
        struct config_fault moving = f->v[i];
        size_t at = i;
        for (; at > 0 && stands_after(&f->v[at - 1], &moving); at--)
            f->v[at] = f->v[at - 1];
        f->v[at] = moving;
    }
}

const char *fault_nearest(struct bytes word, const char *const *words)
{
    const char *best = NULL;
    unsigned least = NEAR_MAX + 1;
    if (word.n > NAME_BYTES_MAX)
        return NULL;
    for (size_t i = 0; words[i] != NULL; i++) {
        unsigned d = bytes_distance(word, bytes_of(words[i]), NEAR_MAX);
        if (d < least && d * 2 <= strlen(words[i])) {
            least = d;
            best = words[i];
        }
    }
    return best;
}

const char *fault_hint(struct fault_log *log, struct bytes word, const char *const *words)
{
    const char *near = fault_nearest(word, words);
    return near == NULL ? "" : arena_printf(&log->faults->arena, "; did you mean \"%s\"?", near).p;
}

const char *fault_quote(struct fault_log *log, struct bytes b)
{
    bool is_long = b.n > QUOTE_MAX;
    struct bytes cut = bytes_slice(b, 0, QUOTE_MAX);
    while (is_long && cut.n > 0 && ((unsigned char)b.p[cut.n] & 0xc0) == 0x80)
        cut.n--; /* not in the middle of a character */
    char *p = arena_alloc(&log->faults->arena, cut.n + 4);
    for (size_t i = 0; i < cut.n; i++)
        p[i] = (unsigned char)cut.p[i] < 0x20 || cut.p[i] == 0x7f ? '?' : cut.p[i];
    if (is_long)
        memcpy(p + cut.n, "...", 3);
    return p;
}

void config_faults_fini(struct config_faults *f)
{
    arena_fini(&f->arena);
    *f = (struct config_faults){0};
}

void config_faults_text(const struct config_faults *f, struct buf *out)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct config_fault *x = &f->v[i];
        buf_puts(out, x->file[0] != '\0' ? x->file : "config");
        if (x->line > 0)
            buf_printf(out, ":%u:%u", x->line, x->column);
        buf_printf(out, ": %s: %s\n", x->is_warning ? "warning" : "error", x->message);
    }
}
