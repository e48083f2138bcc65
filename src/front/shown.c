#include "front/shown.h"

void shown_init(struct shown *s, struct arena *arena, size_t text_max)
{
    *s = (struct shown){.arena = arena, .text_max = text_max};
}

void shown_fini(struct shown *s)
{
    buf_fini(&s->text);
}

void shown_text(struct shown *s, struct bytes text)
{
    if (s->text.n + text.n <= s->text_max)
        buf_put(&s->text, text);
}

void shown_begun(struct shown *s, const struct encoder_begun *begun)
{
    struct encoder_begun was = s->begun;
    s->begun = *begun;
    s->begun.is_on = true;
    s->begun.id = was.is_on ? was.id : arena_dup(s->arena, begun->id);
    s->begun.model = was.is_on ? was.model : arena_dup(s->arena, begun->model);
}
