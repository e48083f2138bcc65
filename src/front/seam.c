#include "front/seam.h"

/* Text that begins like what was told, for so long, is a repetition. A shorter text may be repeated by chance, so then
 * what a model says that was given it is taken as it comes. */
enum { ECHO_BYTES_MIN = 24 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

void seam_init(struct seam *s, struct bytes told, bool is_prefilled)
{
    *s = (struct seam){.told = told, .is_prefilled = is_prefilled};
}

void seam_fini(struct seam *s)
{
    buf_fini(&s->held);
}

struct bytes seam_prefill(struct bytes told)
{
    while (told.n > 0 && is_blank(told.p[told.n - 1]))
        told.n--;
    return told;
}

static size_t common(struct bytes a, struct bytes b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n])
        n++;
    return n;
}

static enum seam_result restart_text(struct seam *s, struct bytes text, struct bytes *rest)
{
    size_t n = common(bytes_slice(s->told, s->n_repeated, s->told.n), text);
    s->n_repeated += n;
    if (s->n_repeated == s->told.n) {
        *rest = bytes_slice(text, n, text.n);
        return SEAM_JOINED;
    }
    return n == text.n ? SEAM_HELD : SEAM_PARTED;
}

/* It goes on. The blanks that were taken from the end of the prefill may come again: the client has them. */
static enum seam_result go_on(const struct seam *s, struct bytes *rest)
{
    struct bytes told = s->told, given = seam_prefill(told), all = buf_bytes(&s->held);
    size_t n = common(bytes_slice(told, given.n, told.n), all);
    *rest = bytes_slice(all, n, all.n);
    return SEAM_JOINED;
}

static enum seam_result prefilled_text(struct seam *s, struct bytes text, struct bytes *rest)
{
    buf_put(&s->held, text);
    struct bytes all = buf_bytes(&s->held);
    if (s->told.n < ECHO_BYTES_MIN)
        return all.n > 0 ? go_on(s, rest) : SEAM_HELD;
    size_t n = common(s->told, all);
    if (n == s->told.n) {
        *rest = bytes_slice(all, n, all.n);
        return SEAM_JOINED;
    }
    if (n == all.n)
        return SEAM_HELD;
    return n >= ECHO_BYTES_MIN ? SEAM_PARTED : go_on(s, rest);
}

enum seam_result seam_text(struct seam *s, struct bytes text, struct bytes *rest)
{
    *rest = (struct bytes){NULL, 0};
    return s->is_prefilled ? prefilled_text(s, text, rest) : restart_text(s, text, rest);
}

enum seam_result seam_end(struct seam *s, struct bytes *rest)
{
    *rest = (struct bytes){NULL, 0};
    if (s->is_prefilled)
        return go_on(s, rest);
    return s->n_repeated == s->told.n ? SEAM_JOINED : SEAM_PARTED;
}
