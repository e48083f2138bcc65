/* One walk over the notes, far from the levels that are not noted any more. Members that are not named here say nothing
 * of what the gateway must know; of those that are, a second one of the same name, or a type that is not the usual one,
 * ends the walk: the tree says which counts.
 */
#include "dialect/openai_noted.h"

#include "dialect/walk.h"

/* Over what is in the value that m stands on, which is an object, an array or null. False where that has no notes. */
static inline bool step_into(const struct walk *m, struct walk *inside)
{
    const struct json_note *n = &m->index->v[m->here];
    *inside = (struct walk){.is_object = m->value.p[0] == '{', .index = m->index, .next = m->here + 1, .end = n->next};
    return n->less == 0;
}

static bool is_null(struct bytes value)
{
    return value.p[0] == 'n';
}

static bool is_empty_list(const struct walk *m)
{
    return m->value.p[0] == '[' && m->index->v[m->here].next == m->here + 1;
}

/* ---- values ---- */

/* field: in *out. */
static void note_place(const struct walk *m, struct openai_noted *out, enum noted_kind kind, const void *field)
{
    size_t at = field != NULL ? (size_t)((const char *)field - (const char *)out) : NOTED_NOWHERE;
    if (out->n_places < NOTED_PLACES_MAX)
        out->places[out->n_places] = (struct noted_place){m->here, (uint16_t)at, kind};
    out->n_places++;
}

static bool set_text(const struct walk *m, struct noted_text *field)
{
    if (field->inside.p != NULL)
        return false;
    field->inside = bytes_slice(m->value, 0, 0);
    if (is_null(m->value))
        return true;
    if (m->value.p[0] != '"')
        return false;
    *field = (struct noted_text){{m->value.p + 1, m->value.n - 2}, m->index->v[m->here].less};
    return true;
}

static bool take_text(const struct walk *m, struct openai_noted *out, struct noted_text *field)
{
    if (!set_text(m, field))
        return false;
    if (!is_null(m->value))
        note_place(m, out, NOTED_TEXT, field);
    return true;
}

static bool take_word(const struct walk *m, struct openai_noted *out, struct noted_text *field)
{
    if (!set_text(m, field) || field->less > 0)
        return false;
    if (!is_null(m->value))
        note_place(m, out, NOTED_WORD, field);
    return true;
}

/* The reader of trees takes anything but a string for none. */
static bool take_word_if_any(const struct walk *m, struct openai_noted *out, struct noted_text *field)
{
    if (m->value.p[0] == '"' || field->inside.p != NULL)
        return take_word(m, out, field);
    field->inside = bytes_slice(m->value, 0, 0);
    return true;
}

/* Digits and no more; as many as cannot be too many. */
static bool take_figure(struct bytes value, size_t n_max, int64_t *out)
{
    int64_t n = 0;
    if (value.n > n_max)
        return false;
    for (size_t i = 0; i < value.n; i++) {
        unsigned digit = (unsigned)(unsigned char)value.p[i] - '0';
        if (digit > 9)
            return false;
        n = n * 10 + digit;
    }
    *out = n;
    return true;
}

static bool take_count(const struct walk *m, struct openai_noted *out, int64_t *field)
{
    if (*field >= 0 || !take_figure(m->value, NOTED_DIGITS_MAX, field))
        return false;
    note_place(m, out, NOTED_FIGURE, field);
    return true;
}

/* A member that nobody asks for, and which may be another the next time. */
static bool pass_by(const struct walk *m, struct openai_noted *out)
{
    int64_t n;
    if (m->value.p[0] == '"' && m->index->v[m->here].less == 0)
        note_place(m, out, NOTED_WORD, NULL);
    else if (take_figure(m->value, NOTED_UNREAD_MAX, &n))
        note_place(m, out, NOTED_FIGURE, NULL);
    return true;
}

/* ---- usage ---- */

static bool read_prompt_detail(const struct walk *m, struct openai_noted *out)
{
    if (bytes_is(m->name, "cached_tokens"))
        return take_count(m, out, &out->usage.cached);
    if (bytes_is(m->name, "cache_write_tokens"))
        return take_count(m, out, &out->usage.written);
    return pass_by(m, out);
}

static bool read_completion_detail(const struct walk *m, struct openai_noted *out)
{
    if (bytes_is(m->name, "reasoning_tokens"))
        return take_count(m, out, &out->usage.reasoning);
    return pass_by(m, out);
}

static bool read_details(const struct walk *m, bool *is_there,
                         bool read(const struct walk *m, struct openai_noted *out), struct openai_noted *out)
{
    if (*is_there || (m->value.p[0] != '{' && !is_null(m->value)))
        return false;
    *is_there = true;
    struct walk detail;
    if (!step_into(m, &detail))
        return false;
    while (walk_next_noted(&detail))
        if (!read(&detail, out))
            return false;
    return true;
}

/* Other names for the same are other hosts': theirs are the tree's. */
static bool is_other_name(struct bytes name)
{
    return bytes_is(name, "input_tokens") || bytes_is(name, "output_tokens") ||
           bytes_is(name, "input_tokens_details") || bytes_is(name, "output_tokens_details") ||
           bytes_is(name, "cached_tokens") || bytes_is(name, "prompt_cache_hit_tokens") ||
           bytes_is(name, "num_cached_tokens");
}

static bool read_usage(const struct walk *value, struct openai_noted *out)
{
    struct openai_told *told = &out->usage;
    bool has_prompt_details = false, has_completion_details = false;
    if (out->has_usage || value->value.p[0] != '{')
        return false;
    out->has_usage = true;
    *told = OPENAI_TOLD_NONE;
    struct walk m;
    if (!step_into(value, &m))
        return false;
    for (bool is_usual = true; walk_next_noted(&m);) {
        if (bytes_is(m.name, "prompt_tokens"))
            is_usual = take_count(&m, out, &told->prompt);
        else if (bytes_is(m.name, "completion_tokens"))
            is_usual = take_count(&m, out, &told->completion);
        else if (bytes_is(m.name, "total_tokens"))
            is_usual = take_count(&m, out, &told->total);
        else if (bytes_is(m.name, "prompt_tokens_details"))
            is_usual = read_details(&m, &has_prompt_details, read_prompt_detail, out);
        else if (bytes_is(m.name, "completion_tokens_details"))
            is_usual = read_details(&m, &has_completion_details, read_completion_detail, out);
        else
            is_usual = !is_other_name(m.name) && pass_by(&m, out);
        if (!is_usual)
            return false;
    }
    return true;
}

/* ---- the choice ---- */

static bool read_message_member(const struct walk *m, struct openai_noted *out)
{
    struct bytes name = m->name;
    if (bytes_is(name, "content"))
        return take_text(m, out, &out->content);
    if (bytes_is(name, "refusal"))
        return take_text(m, out, &out->refusal);
    if (bytes_is(name, "reasoning_content"))
        return take_text(m, out, &out->reasoning_content);
    if (bytes_is(name, "reasoning"))
        return take_text(m, out, &out->reasoning);
    if (bytes_is(name, "tool_calls") || bytes_is(name, "annotations") || bytes_is(name, "reasoning_details"))
        return is_null(m->value) || is_empty_list(m);
    if (bytes_is(name, "function_call") || bytes_is(name, "audio"))
        return is_null(m->value);
    return true;
}

static bool read_message(const struct walk *value, struct openai_noted *out)
{
    if (out->has_message || value->value.p[0] != '{')
        return false;
    out->has_message = true;
    struct walk m;
    if (!step_into(value, &m))
        return false;
    while (walk_next_noted(&m))
        if (!read_message_member(&m, out))
            return false;
    return true;
}

static bool read_index(const struct walk *m, struct openai_noted *out)
{
    int64_t n;
    if (out->has_index || !take_figure(m->value, NOTED_DIGITS_MAX, &n) || n > UINT16_MAX)
        return false;
    out->has_index = true;
    out->choice = (uint16_t)n;
    return true;
}

static bool read_choice_member(const struct walk *m, struct openai_noted *out)
{
    struct bytes name = m->name;
    if (bytes_is(name, "index"))
        return read_index(m, out);
    if (bytes_is(name, "message"))
        return read_message(m, out);
    if (bytes_is(name, "finish_reason"))
        return take_word(m, out, &out->finish);
    if (bytes_is(name, "stop_reason"))
        return take_word_if_any(m, out, &out->sequence);
    if (bytes_is(name, "error") || bytes_is(name, "delta"))
        return is_null(m->value);
    return true;
}

static bool read_choices(const struct walk *value, struct openai_noted *out)
{
    if (out->has_choice || value->value.p[0] != '[')
        return false;
    out->has_choice = true;
    struct walk choice, m;
    if (!step_into(value, &choice) || !walk_next_noted(&choice) || choice.value.p[0] != '{' || !step_into(&choice, &m))
        return false;
    while (walk_next_noted(&m))
        if (!read_choice_member(&m, out))
            return false;
    return out->has_message && !walk_next_noted(&choice);
}

/* ---- the answer ---- */

static bool read_member(const struct walk *m, struct openai_noted *out)
{
    struct bytes name = m->name;
    if (bytes_is(name, "id"))
        return take_word(m, out, &out->id);
    if (bytes_is(name, "object"))
        return set_text(m, &out->object) && out->object.less == 0 && !bytes_is(out->object.inside, "error");
    if (bytes_is(name, "model"))
        return take_word(m, out, &out->model);
    if (bytes_is(name, "choices"))
        return read_choices(m, out);
    if (bytes_is(name, "usage"))
        return read_usage(m, out);
    if (bytes_is(name, "service_tier"))
        return take_word(m, out, &out->service_tier);
    if (bytes_is(name, "error"))
        return is_null(m->value);
    return !bytes_is(name, "type") && pass_by(m, out);
}

bool openai_noted_read(const struct json_index *index, struct openai_noted *out)
{
    memset(out, 0, offsetof(struct openai_noted, places));
    struct walk m = walk_notes(index);
    while (walk_next_noted(&m))
        if (!read_member(&m, out))
            return false;
    return out->has_choice && out->has_usage;
}
