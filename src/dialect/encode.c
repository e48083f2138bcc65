#include "dialect/encode.h"

#include "base/check.h"
#include "dialect/dialect.h"

void encoder_init(struct encoder *e, const struct dialect *client, const struct encoder_options *o)
{
    RM_ASSERT(client != NULL && client->encoder != NULL);
    *e = (struct encoder){.dialect = client, .o = *o};
    arena_init(&e->keep);
    client->encoder->init(e);
}

void encoder_fini(struct encoder *e)
{
    arena_fini(&e->keep);
    e->state = NULL;
}

void encoder_event(struct encoder *e, const struct event *ev, struct buf *out)
{
    RM_ASSERT(e->dialect != NULL && ev->kind != EVENT_ERROR);
    e->dialect->encoder->event(e, ev, out);
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
