/* What all decoders share: the scratch is emptied before each call, so that a stream of any length needs the memory of
 * its largest event; what was seen is noted here once for all dialects; and nothing is decoded after an error event or
 * after the terminal marker. */
#include "dialect/decode.h"

#include "base/check.h"
#include "base/mem.h"
#include "codec/json_string.h"
#include "dialect/dialect.h"

void decoder_init(struct decoder *d, const struct dialect *target, struct bytes vendor, unsigned max_depth,
                  bool strips_usage)
{
    RM_ASSERT(target != NULL && target->decoder != NULL);
    memset(d, 0, offsetof(struct decoder, mould));
    d->dialect = target;
    d->vendor = vendor;
    d->max_depth = max_depth;
    d->strips_usage = strips_usage;
    mould_init(&d->mould);
    target->decoder->init(d);
}

void answer_form_free(struct answer_form *f)
{
    mem_free(f);
}

void decoder_fini(struct decoder *d)
{
    arena_fini(&d->scratch);
    arena_fini(&d->keep);
    mould_fini(&d->mould);
    d->state = NULL;
}

struct failure *decoder_failure(struct decoder *d)
{
    if (d->failure == NULL)
        d->failure = ARENA_NEW(&d->keep, struct failure);
    return d->failure;
}

void decoder_rest(struct decoder *d)
{
    arena_fini(&d->scratch);
}

static void note(struct decoder *d, const struct decoded *out)
{
    uint32_t kinds = 0; /* a bit each */
    for (size_t i = 0; i < out->n; i++) {
        d->has_token |= out->v[i].is_token;
        kinds |= UINT32_C(1) << out->v[i].kind;
    }
    d->has_finish |= (kinds >> EVENT_FINISH & 1) != 0;
    d->has_done |= (kinds >> EVENT_DONE & 1) != 0;
    d->has_error |= (kinds >> EVENT_ERROR & 1) != 0;
}

/* False when nothing may come any more: the call is then answered with an empty batch. */
static bool is_open(struct decoder *d, struct decoded *out)
{
    RM_ASSERT(d->dialect != NULL);
    *out = (struct decoded){0};
    arena_fini(&d->scratch);
    out->is_dropped = d->has_error || d->has_done;
    return !out->is_dropped;
}

void decoder_event(struct decoder *d, const struct sse_event *ev, struct decoded *out)
{
    if (!is_open(d, out))
        return;
    d->dialect->decoder->event(d, ev, out);
    note(d, out);
    if (out->n == 1 && !out->is_malformed && !out->is_dropped)
        mould_make(&d->mould, ev, &out->v[0], &out->source, out->strip_at, out->strip_end);
    else
        mould_clear(&d->mould);
}

/* Seldom: its text means something else than it says. */
static __attribute__((noinline)) void unescape(struct decoder *d)
{
    struct event *e = &d->mould.event;
    arena_fini(&d->scratch);
    e->text = json_string_value(e->text, true, &d->scratch);
    e->text_bytes = (uint32_t)e->text.n; /* shorter than MOULD_TEXT_MAX */
}

size_t decoder_ahead(struct decoder *d, struct bytes ahead, struct output *out)
{
    struct mould *m = &d->mould;
    if (m->n_holes == 0 || !mould_match(m, ahead, out))
        return 0;
    if (m->text_has_escapes)
        unescape(d);
    return out->raw.n;
}

void decoder_whole(struct decoder *d, struct bytes body, struct decoded *out)
{
    if (!is_open(d, out))
        return;
    d->dialect->decoder->whole(d, body, out);
    note(d, out);
}

bool decoder_is_complete(const struct decoder *d)
{
    return !d->has_error && (d->has_done || d->has_finish);
}
