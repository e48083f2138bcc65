/* x-ringmain-trail (DESIGN 4): the attempts in order, one entry each. Times are the attempt's own: from its start to
 * its end, or to its first token. An entry that does not fit any more, and all after it, are left out whole. */
#include "front/trail.h"
#include "base/text.h"

enum { TRAIL_BYTES_MAX = 4096 };

static int64_t ms_between(int64_t from_us, int64_t to_us)
{
    int64_t us = to_us - (from_us > 0 ? from_us : 0);
    return us > 0 ? (us + 500) / 1000 : 0;
}

/* The attempt that serves is still running when the head goes out. */
static bool is_serving(const struct attempt_record *a)
{
    return a->outcome == OUTCOME_OK || (a->outcome == OUTCOME_NONE && a->is_started);
}

static void put_ms(struct buf *out, int64_t ms)
{
    buf_put_i64(out, ms);
    buf_puts(out, "ms");
}

static void put_target(struct buf *out, const char *provider, const char *model)
{
    text_percent(out, bytes_of(provider), ";,/");
    buf_putc(out, '/');
    text_percent(out, bytes_of(model), ";,");
    buf_putc(out, ';');
}

bool trail_is_one_served(const struct request_record *rec)
{
    return rec->n_attempts == 1 && is_serving(&rec->attempts[0]);
}

void trail_put_served(struct buf *out, const char *provider, const char *model)
{
    put_target(out, provider, model);
    buf_puts(out, "ok;ttft=");
}

void trail_put_served_time(struct buf *out, const struct attempt_record *a)
{
    put_ms(out, ms_between(a->start_us, a->ttft_us >= 0 ? a->ttft_us : a->total_us));
}

static void put_entry(struct buf *out, const struct attempt_record *a)
{
    if (is_serving(a)) {
        trail_put_served(out, a->provider, a->model);
        trail_put_served_time(out, a);
        return;
    }
    put_target(out, a->provider, a->model);
    buf_puts(out, outcome_word(a->outcome));
    if (!a->is_started)
        return;
    if (a->status != 0) {
        buf_puts(out, ";status=");
        buf_put_u64(out, a->status);
    }
    buf_putc(out, ';');
    put_ms(out, ms_between(a->start_us, a->total_us));
}

void trail_text(const struct request_record *rec, struct buf *out)
{
    size_t from = out->n;
    for (uint16_t i = 0; i < rec->n_attempts; i++) {
        size_t before = out->n;
        if (before > from)
            buf_puts(out, ", ");
        put_entry(out, &rec->attempts[i]);
        if (out->n - from > TRAIL_BYTES_MAX) {
            buf_cut(out, before);
            break;
        }
    }
}
