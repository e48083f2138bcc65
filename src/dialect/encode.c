#include "dialect/encode.h"

#include "base/check.h"
#include "dialect/dialect.h"

void encoder_init(struct encoder *e, const struct dialect *client, const struct encoder_options *o)
{
    RM_ASSERT(client != NULL && client->encoder != NULL);
    *e = (struct encoder){.dialect = client, .o = *o, .frame.kind = EVENT_OTHER};
    arena_init(&e->keep);
    client->encoder->init(e);
}

void encoder_fini(struct encoder *e)
{
    arena_fini(&e->keep);
    e->state = NULL;
}

static size_t characters(struct bytes text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += ((unsigned char)text.p[i] & 0xc0) != 0x80;
    return n;
}

void encoder_event(struct encoder *e, const struct event *ev, struct buf *out)
{
    RM_ASSERT(e->dialect != NULL && ev->kind != EVENT_ERROR);
    if (ev->kind == EVENT_TEXT && e->o.is_stream)
        e->n_characters += characters(ev->text);
    e->dialect->encoder->event(e, ev, out);
}

bool encoder_more(struct encoder *e, const struct event *ev, struct bytes out[3])
{
    if (e->frame.kind != ev->kind || !ev->is_plain || ev->choice != 0 || ev->text.n == 0)
        return false;
    if (ev->kind == EVENT_TEXT)
        e->n_characters += characters(ev->text);
    out[0] = e->frame.head;
    out[1] = ev->text;
    out[2] = e->frame.tail;
    return true;
}

void encoder_keep_frame(struct encoder *e, enum event_kind kind, const struct buf *out, size_t from, size_t text,
                        size_t end)
{
    struct bytes all = buf_bytes(out);
    if (e->frame.kind == kind)
        return;
    encoder_drop_frame(e);
    if (e->n_frames == ENCODER_FRAMES_MAX)
        return;
    e->n_frames++;
    e->frame = (struct encoder_frame){.kind = kind,
                                      .head = arena_dup(&e->keep, bytes_slice(all, from, text + 1)),
                                      .tail = arena_dup(&e->keep, bytes_slice(all, end - 1, all.n))};
}

void encoder_end(struct encoder *e, struct buf *out)
{
    RM_ASSERT(e->dialect != NULL);
    e->dialect->encoder->end(e, out);
}

void encoder_begun(const struct encoder *e, struct encoder_begun *out)
{
    RM_ASSERT(e->dialect != NULL && e->o.is_stream);
    *out = (struct encoder_begun){.is_on = true};
    e->dialect->encoder->begun(e, out);
}
