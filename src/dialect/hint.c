#include "dialect/hint.h"

#include "base/text.h"

static const int64_t HINT_MAX_MS = INT64_C(366) * 86400000;

static int64_t bounded(double ms)
{
    if (!(ms > 0))
        return 0;
    return ms > (double)HINT_MAX_MS ? HINT_MAX_MS : (int64_t)(ms + 0.5);
}

/* Digits with an optional fraction; returns how many bytes it took, 0 = no number. */
static size_t number(struct bytes t, double *out)
{
    size_t i = 0;
    double v = 0, scale = 0.1;
    bool has_digit = false;
    for (; i < t.n && t.p[i] >= '0' && t.p[i] <= '9'; i++, has_digit = true)
        v = v * 10 + (t.p[i] - '0');
    if (has_digit && i + 1 < t.n && t.p[i] == '.' && t.p[i + 1] >= '0' && t.p[i + 1] <= '9')
        for (i++; i < t.n && t.p[i] >= '0' && t.p[i] <= '9'; i++, scale /= 10)
            v += (t.p[i] - '0') * scale;
    *out = v;
    return has_digit ? i : 0;
}

static bool whole_number(struct bytes t, double *out)
{
    t = bytes_trim(t);
    return t.n > 0 && number(t, out) == t.n;
}

/* Milliseconds of the unit that stands at the start of t; 0 = none. *n = its bytes. */
static double unit(struct bytes t, size_t *n)
{
    static const struct {
        const char *word;
        double ms;
    } units[] = {{"milliseconds", 1}, {"millisecond", 1},   {"minutes", 60000}, {"minute", 60000},  {"seconds", 1000},
                 {"second", 1000},    {"hours", 3600000},   {"hour", 3600000},  {"days", 86400000}, {"day", 86400000},
                 {"mins", 60000},     {"min", 60000},       {"secs", 1000},     {"sec", 1000},      {"ms", 1},
                 {"us", 0.001},       {"\xc2\xb5s", 0.001}, {"ns", 0.000001},   {"h", 3600000},     {"m", 60000},
                 {"s", 1000},         {"d", 86400000}};
    for (size_t i = 0; i < RM_COUNTOF(units); i++) {
        struct bytes u = bytes_of(units[i].word);
        if (bytes_eq_nocase(bytes_slice(t, 0, u.n), u)) {
            *n = u.n;
            return units[i].ms;
        }
    }
    *n = 0;
    return 0;
}

bool hint_duration(struct bytes text, int64_t *ms)
{
    double sum = 0, v;
    bool has_part = false;
    for (unsigned part = 0; part < 8; part++) {
        size_t n = number(text, &v), blanks = 0, n_unit;
        if (n == 0)
            break;
        while (n + blanks < text.n && text.p[n + blanks] == ' ')
            blanks++;
        double scale = unit(bytes_slice(text, n + blanks, text.n), &n_unit);
        if (scale == 0 && has_part)
            break;
        sum += v * (scale == 0 ? 1000 : scale);
        has_part = true;
        text = bytes_slice(text, n + (scale == 0 ? 0 : blanks + n_unit), text.n);
        if (scale == 0)
            break;
    }
    *ms = bounded(sum);
    return has_part;
}

/* An instant -> from now, by the provider's own clock where it tells it. */
static bool from_instant(const struct fields *fields, int64_t at_ms, int64_t wall_ms, int64_t *out)
{
    int64_t now = wall_ms;
    struct bytes date = fields ? fields_get(fields, "date") : (struct bytes){0};
    if (date.p == NULL || !text_time_parse(date, &now))
        now = wall_ms;
    if (now == 0)
        return false;
    *out = bounded((double)(at_ms - now));
    return true;
}

static bool retry_after(const struct fields *fields, int64_t wall_ms, int64_t *out)
{
    double v;
    int64_t at;
    struct bytes ms = fields_get(fields, "retry-after-ms"), plain = fields_get(fields, "retry-after");
    if (ms.p != NULL && whole_number(ms, &v)) {
        *out = bounded(v);
        return true;
    }
    if (plain.p == NULL)
        return false;
    if (whole_number(plain, &v)) {
        *out = bounded(v * 1000);
        return true;
    }
    if (text_time_parse(plain, &at))
        return from_instant(fields, at, wall_ms, out);
    return hint_duration(bytes_trim(plain), out);
}

/* Google's error.details[] with retryDelay "27s"; OpenRouter's error.availability.retry_after in seconds. */
static bool in_body(const struct complaint *c, int64_t *out)
{
    yyjson_val *details = yyjson_obj_get(c->error, "details"), *d, *after;
    size_t i, n;
    yyjson_arr_foreach(details, i, n, d)
    {
        if (hint_duration(json_tree_str(d, "retryDelay"), out))
            return true;
    }
    after = yyjson_obj_get(yyjson_obj_get(c->error, "availability"), "retry_after");
    struct bytes text =
        yyjson_is_raw(after) ? bytes_from(yyjson_get_raw(after), yyjson_get_len(after)) : json_tree_bytes(after);
    return hint_duration(text, out);
}

/* "2026-12-05 at 00:00 UTC" */
static bool spoken_date(const struct fields *fields, struct bytes t, int64_t wall_ms, int64_t *out)
{
    char iso[] = "0000-00-00T00:00:00Z";
    int64_t at;
    if (t.n < 10)
        return false;
    memcpy(iso, t.p, 10);
    struct bytes clock = bytes_slice(t, 10, 20);
    if (bytes_starts_with(clock, BYTES(" at ")) && clock.n >= 9)
        memcpy(iso + 11, clock.p + 4, 5);
    return text_time_parse(bytes_of(iso), &at) && from_instant(fields, at, wall_ms, out);
}

static bool in_words(const struct fields *fields, const struct complaint *c, int64_t wall_ms, int64_t *out)
{
    static const char *const phrases[] = {"try again in ",    "retry in ",     "retry after ",
                                          "try again after ", "available in ", "wait "};
    size_t at = bytes_find_nocase(c->text, BYTES("regain access on "));
    if (at != SIZE_MAX && spoken_date(fields, bytes_slice(c->text, at + 17, c->text.n), wall_ms, out))
        return true;
    for (size_t i = 0; i < RM_COUNTOF(phrases); i++) {
        at = bytes_find_nocase(c->text, bytes_of(phrases[i]));
        if (at == SIZE_MAX)
            continue;
        if (hint_duration(bytes_slice(c->text, at + strlen(phrases[i]), c->text.n), out))
            return true;
    }
    return false;
}

/* ---- rate-limit dimensions: "…remaining…" is 0, and the same name with "reset" says when ---- */

/* Where "remaining" stands in the name of an exhausted dimension; SIZE_MAX = this field is none. */
static size_t exhausted_at(const struct field *f)
{
    double left;
    size_t at = bytes_find_nocase(f->name, BYTES("remaining"));
    if (at == SIZE_MAX || bytes_find_nocase(f->name, BYTES("ratelimit")) == SIZE_MAX)
        return SIZE_MAX;
    return whole_number(f->value, &left) && left < 1 ? at : SIZE_MAX;
}

bool hint_is_exhausted(const struct fields *fields)
{
    for (size_t i = 0; fields != NULL && i < fields->n; i++)
        if (exhausted_at(&fields->v[i]) != SIZE_MAX)
            return true;
    return false;
}

bool hint_is_in_fields(const struct fields *fields)
{
    return fields != NULL && (fields_has(fields, "retry-after") || fields_has(fields, "retry-after-ms"));
}

/* A duration, an instant, seconds since 1970, or milliseconds since 1970. */
static bool reset_value(const struct fields *fields, struct bytes v, int64_t wall_ms, int64_t *out)
{
    double n;
    int64_t at;
    if (whole_number(v, &n) && n > 1e9)
        return from_instant(fields, (int64_t)(n > 1e11 ? (n < 1e15 ? n : 1e15) : n * 1000), wall_ms, out);
    if (text_time_parse(v, &at))
        return from_instant(fields, at, wall_ms, out);
    return hint_duration(v, out);
}

static bool limits(const struct fields *fields, int64_t wall_ms, int64_t *out)
{
    bool found = false;
    for (size_t i = 0; i < fields->n; i++) {
        struct bytes name = fields->v[i].name;
        size_t at = exhausted_at(&fields->v[i]);
        char reset[128];
        int64_t ms;
        if (at == SIZE_MAX || name.n >= sizeof reset)
            continue;
        memcpy(reset, name.p, at);
        memcpy(reset + at, "reset", 5);
        memcpy(reset + at + 5, name.p + at + 9, name.n - at - 9);
        reset[name.n - 4] = '\0';
        struct bytes v = fields_get(fields, reset);
        if (v.p == NULL || !reset_value(fields, bytes_trim(v), wall_ms, &ms))
            continue;
        *out = found && *out > ms ? *out : ms;
        found = true;
    }
    return found;
}

int64_t hint_read(const struct fields *fields, const struct complaint *c, int64_t wall_ms, bool reads_limits)
{
    int64_t ms;
    if (fields != NULL && retry_after(fields, wall_ms, &ms))
        return ms;
    if (in_body(c, &ms) || in_words(fields, c, wall_ms, &ms))
        return ms;
    if (fields != NULL && reads_limits && limits(fields, wall_ms, &ms))
        return ms;
    return -1;
}
