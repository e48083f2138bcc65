#include "dialect/transcript.h"

void transcript_init(struct transcript *d)
{
    *d = (struct transcript){.n_choices = 1, .usage = USAGE_NONE};
}

static uint64_t bit(uint16_t choice)
{
    return UINT64_C(1) << (choice % TRANSCRIPT_CHOICES_MAX);
}

bool transcript_note(struct transcript *d, const struct event *ev, struct arena *a)
{
    switch (ev->kind) {
    case EVENT_START:
        if (d->id.n == 0)
            d->id = arena_dup(a, ev->id);
        if (d->model.n == 0)
            d->model = arena_dup(a, ev->text);
        return true;
    case EVENT_FINISH:
        if (ev->choice >= d->n_choices && ev->choice < TRANSCRIPT_CHOICES_MAX)
            d->n_choices = (uint16_t)(ev->choice + 1);
        if (d->finished & bit(ev->choice))
            return true;
        d->finished |= bit(ev->choice);
        d->reasons[ev->choice % TRANSCRIPT_CHOICES_MAX] = (uint8_t)ev->reason;
        if (ev->name.n > 0)
            d->sequence = arena_dup(a, ev->name);
        if (ev->text.n > 0)
            d->details = arena_dup(a, ev->text);
        return true;
    case EVENT_USAGE:
        usage_merge(&d->usage, &ev->usage);
        return true;
    default:
        return false;
    }
}

static struct transcript_block *last_of(struct transcript *d, uint16_t choice)
{
    struct transcript_block *found = NULL;
    for (struct transcript_block *b = d->first; b != NULL; b = b->next)
        if (b->choice == choice)
            found = b;
    return found;
}

static struct transcript_block *add_block(struct transcript *d, const struct event *ev, enum event_kind kind,
                                          struct arena *a)
{
    struct transcript_block *b = ARENA_NEW(a, struct transcript_block);
    b->kind = kind;
    b->choice = ev->choice;
    b->tool = ev->tool;
    if (d->last != NULL)
        d->last->next = b;
    else
        d->first = b;
    d->last = b;
    if (ev->choice >= d->n_choices && ev->choice < TRANSCRIPT_CHOICES_MAX)
        d->n_choices = (uint16_t)(ev->choice + 1);
    return b;
}

static struct transcript_block *tool_block(struct transcript *d, const struct event *ev)
{
    struct transcript_block *found = NULL;
    for (struct transcript_block *b = d->first; b != NULL; b = b->next)
        if (b->kind == EVENT_TOOL_START && b->choice == ev->choice && b->tool == ev->tool)
            found = b;
    return found;
}

/* The running block of that kind, or a new one. One choice at a time is the usual case: the last block is it. */
static struct transcript_block *running(struct transcript *d, const struct event *ev, enum event_kind kind,
                                        struct arena *a)
{
    struct transcript_block *b = d->last != NULL && d->last->choice == ev->choice ? d->last : last_of(d, ev->choice);
    if (b != NULL && b->kind == kind && !b->is_closed)
        return b;
    return add_block(d, ev, kind, a);
}

struct transcript_block *transcript_put(struct transcript *d, const struct event *ev, struct arena *a)
{
    struct transcript_block *b = NULL;
    switch (ev->kind) {
    case EVENT_TEXT:
    case EVENT_REASONING:
    case EVENT_REFUSAL:
        b = running(d, ev, ev->kind, a);
        rope_put(&b->text, a, ev->text);
        break;
    case EVENT_SIGNATURE:
        b = running(d, ev, EVENT_REASONING, a);
        rope_put(&b->signature, a, ev->text);
        b->is_closed = true;
        break;
    case EVENT_REDACTED:
    case EVENT_CITATION:
        b = add_block(d, ev, ev->kind, a);
        rope_put(&b->text, a, ev->text);
        break;
    case EVENT_TOOL_START:
        b = add_block(d, ev, EVENT_TOOL_START, a);
        b->id = arena_dup(a, ev->id);
        b->name = arena_dup(a, ev->name);
        d->with_tools |= bit(ev->choice);
        break;
    case EVENT_TOOL_ARGS:
        b = tool_block(d, ev);
        if (b != NULL)
            rope_put(&b->text, a, ev->text);
        break;
    default:
        break;
    }
    return b;
}

enum finish_reason transcript_reason(const struct transcript *d, uint16_t choice)
{
    bool is_told = (d->finished & bit(choice)) != 0;
    enum finish_reason r = is_told ? (enum finish_reason)d->reasons[choice % TRANSCRIPT_CHOICES_MAX] : FINISH_STOP;
    return r == FINISH_STOP && (d->with_tools & bit(choice)) ? FINISH_TOOL_CALLS : r;
}

struct bytes transcript_id(const struct transcript *d, const struct encoder_options *o, const char *prefix,
                           struct arena *a)
{
    return d->id.n > 0 ? d->id : arena_printf(a, "%s%016llx", prefix, (unsigned long long)o->id_seed);
}

struct bytes transcript_model(const struct transcript *d, const struct encoder_options *o)
{
    return d->model.n > 0 ? d->model : o->model;
}

struct bytes transcript_tool_id(struct bytes id, const struct encoder_options *o, uint16_t tool, const char *prefix,
                                struct arena *a)
{
    return id.n > 0 ? id : arena_printf(a, "%s%016llx%04x", prefix, (unsigned long long)o->id_seed, tool);
}
