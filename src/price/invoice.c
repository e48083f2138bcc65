/* One pass: cut a record, then its fields. The first record names the columns. */
#include "price/invoice.h"

#include "base/check.h"
#include "base/text.h"
#include "price/decimal.h"

enum { FIELDS_MAX = 256, ROWS_MAX = 1000000, DAY_MS = 86400000 };

/* Known names, in small letters, with one '_' for whatever stands between words. */
static const struct known_name {
    const char *name;
    enum invoice_column column;
} known_names[] = {
    {"date", INVOICE_DAY},
    {"day", INVOICE_DAY},
    {"usage_date", INVOICE_DAY},
    {"usage_date_utc", INVOICE_DAY},
    {"start_date", INVOICE_DAY},
    {"start_time", INVOICE_DAY},
    {"start_time_iso", INVOICE_DAY},
    {"bucket_start", INVOICE_DAY},
    {"timestamp", INVOICE_DAY},
    {"model", INVOICE_MODEL},
    {"model_name", INVOICE_MODEL},
    {"model_version", INVOICE_MODEL},
    {"snapshot_id", INVOICE_MODEL},
    {"input_tokens", INVOICE_INPUT},
    {"prompt_tokens", INVOICE_INPUT},
    {"uncached_input_tokens", INVOICE_INPUT},
    {"input_uncached_tokens", INVOICE_INPUT},
    {"usage_input_tokens_no_cache", INVOICE_INPUT},
    {"n_context_tokens_total", INVOICE_INPUT},
    {"cached_tokens", INVOICE_READ},
    {"input_cached_tokens", INVOICE_READ},
    {"cached_input_tokens", INVOICE_READ},
    {"cache_read_tokens", INVOICE_READ},
    {"cache_read_input_tokens", INVOICE_READ},
    {"usage_input_tokens_cache_read", INVOICE_READ},
    {"cache_write_tokens", INVOICE_WRITE_5M},
    {"cache_creation_tokens", INVOICE_WRITE_5M},
    {"cache_creation_input_tokens", INVOICE_WRITE_5M},
    {"usage_input_tokens_cache_write_5m", INVOICE_WRITE_5M},
    {"cache_write_5m_tokens", INVOICE_WRITE_5M},
    {"usage_input_tokens_cache_write_1h", INVOICE_WRITE_1H},
    {"cache_write_1h_tokens", INVOICE_WRITE_1H},
    {"output_tokens", INVOICE_OUTPUT},
    {"completion_tokens", INVOICE_OUTPUT},
    {"usage_output_tokens", INVOICE_OUTPUT},
    {"n_generated_tokens_total", INVOICE_OUTPUT},
    {"requests", INVOICE_REQUESTS},
    {"num_model_requests", INVOICE_REQUESTS},
    {"n_requests", INVOICE_REQUESTS},
    {"cost", INVOICE_COST},
    {"cost_usd", INVOICE_COST},
    {"cost_in_usd", INVOICE_COST},
    {"total_cost", INVOICE_COST},
    {"amount", INVOICE_COST},
    {"amount_usd", INVOICE_COST},
    {"amount_value", INVOICE_COST},
    {"usd", INVOICE_COST},
};

const char *invoice_word(enum invoice_column c)
{
    static const char *const words[INVOICE_N_COLUMNS] = {"day",      "model",  "input",    "read", "write_5m",
                                                         "write_1h", "output", "requests", "cost"};
    RM_ASSERT(c < INVOICE_N_COLUMNS);
    return words[c];
}

/* ---- CSV ---- */

struct reading {
    struct bytes rest;
    unsigned line; /* at which `rest` begins */
    char separator;
    struct arena *arena;
    struct buf *why;
};

struct record {
    struct bytes fields[FIELDS_MAX];
    size_t n;
    unsigned line;
};

/* What stands between quotes, `rest` behind the closing one; "" inside is one quote. False: it is not closed. */
static bool take_quoted(struct reading *r, struct bytes *out)
{
    struct buf text = {0};
    struct bytes in = r->rest;
    size_t i = 1;
    for (; i < in.n; i++) {
        if (in.p[i] == '"' && i + 1 < in.n && in.p[i + 1] == '"')
            i++;
        else if (in.p[i] == '"')
            break;
        r->line += in.p[i] == '\n';
        buf_putc(&text, in.p[i]);
    }
    *out = arena_dup(r->arena, buf_bytes(&text));
    buf_fini(&text);
    r->rest = bytes_slice(in, i + 1, in.n);
    return i < in.n;
}

static struct bytes take_plain(struct reading *r)
{
    size_t n = 0;
    while (n < r->rest.n && r->rest.p[n] != r->separator && r->rest.p[n] != '\n')
        n++;
    struct bytes field = bytes_slice(r->rest, 0, n);
    r->rest = bytes_slice(r->rest, n, r->rest.n);
    return bytes_trim(field);
}

static bool is_end(struct reading *r)
{
    if (r->rest.n > 1 && r->rest.p[0] == '\r' && r->rest.p[1] == '\n')
        r->rest = bytes_slice(r->rest, 1, r->rest.n);
    return r->rest.n == 0 || r->rest.p[0] == '\n';
}

/* NULL, or why not. */
static const char *take_record(struct reading *r, struct record *out)
{
    out->n = 0;
    out->line = r->line;
    for (;;) {
        struct bytes field;
        if (out->n == FIELDS_MAX)
            return "more than 256 fields";
        if (r->rest.n > 0 && r->rest.p[0] == '"') {
            if (!take_quoted(r, &field))
                return "a quote is not closed";
            if (!is_end(r) && r->rest.p[0] != r->separator)
                return "text after a closing quote";
        } else {
            field = take_plain(r);
        }
        out->fields[out->n++] = field;
        if (is_end(r))
            break;
        r->rest = bytes_slice(r->rest, 1, r->rest.n);
    }
    if (r->rest.n > 0) {
        r->rest = bytes_slice(r->rest, 1, r->rest.n);
        r->line++;
    }
    return NULL;
}

static char separator_of(struct bytes text)
{
    struct bytes head = bytes_slice(text, 0, bytes_find_byte(text, '\n'));
    if (bytes_find_byte(head, ',') != SIZE_MAX)
        return ',';
    return bytes_find_byte(head, ';') != SIZE_MAX ? ';' : bytes_find_byte(head, '\t') != SIZE_MAX ? '\t' : ',';
}

/* ---- columns ---- */

struct columns {
    size_t at[INVOICE_N_COLUMNS]; /* SIZE_MAX = none */
};

/* "Cost (USD)" is "cost_usd". */
static bool is_known(struct bytes field, const char *name)
{
    size_t at = 0;
    bool is_between = false;
    for (size_t i = 0; i < field.n; i++) {
        char c = field.p[i];
        c = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) {
            is_between = true;
            continue;
        }
        if (is_between && at > 0 && name[at++] != '_')
            return false;
        is_between = false;
        if (name[at++] != c)
            return false;
    }
    return at > 0 && name[at] == '\0';
}

static void find_known(const struct record *head, struct columns *c, struct invoice *out)
{
    for (size_t k = 0; k < RM_COUNTOF(known_names); k++)
        for (size_t i = 0; i < head->n; i++) {
            enum invoice_column column = known_names[k].column;
            if (c->at[column] != SIZE_MAX || !is_known(head->fields[i], known_names[k].name))
                continue;
            c->at[column] = i;
            if (column == INVOICE_INPUT)
                out->is_input_named =
                    strstr(known_names[k].name, "uncached") != NULL || strstr(known_names[k].name, "no_cache") != NULL;
        }
}

static enum err tell_missing(const struct record *head, const char *what, struct buf *why)
{
    buf_printf(why, "line %u: no column for %s; there are:", head->line, what);
    for (size_t i = 0; i < head->n && i < 40; i++)
        buf_printf(why, "%s %.*s", i > 0 ? "," : "", (int)(head->fields[i].n > 60 ? 60 : head->fields[i].n),
                   head->fields[i].p);
    return ERR_MISSING;
}

static enum err read_head(const struct record *head, const char *const columns[], struct columns *c,
                          struct invoice *out, struct buf *why)
{
    for (int k = 0; k < INVOICE_N_COLUMNS; k++) {
        c->at[k] = SIZE_MAX;
        if (columns == NULL || columns[k] == NULL)
            continue;
        for (size_t i = 0; i < head->n; i++)
            if (bytes_is(head->fields[i], columns[k]))
                c->at[k] = i;
        if (c->at[k] == SIZE_MAX)
            return tell_missing(head, columns[k], why);
    }
    find_known(head, c, out);
    for (int k = 0; k < INVOICE_N_COLUMNS; k++)
        out->has[k] = c->at[k] != SIZE_MAX;
    if (!out->has[INVOICE_DAY] || !out->has[INVOICE_MODEL])
        return tell_missing(head, out->has[INVOICE_DAY] ? "the model" : "the day", why);
    if (!out->has[INVOICE_COST] && !out->has[INVOICE_INPUT] && !out->has[INVOICE_OUTPUT])
        return tell_missing(head, "a cost or tokens", why);
    return ERR_OK;
}

/* ---- values ---- */

/* "2026-07-18", "2026/07/18" or "20260718", and what follows it in `rest`. */
static bool take_date(struct bytes text, char out[10], struct bytes *rest)
{
    static const char form[] = "0000-00-00", packed[] = "00000000";
    bool is_packed = text.n == 8;
    const char *f = is_packed ? packed : form;
    size_t n = 0;
    if (text.n < 8 || (!is_packed && text.n < 10))
        return false;
    for (size_t i = 0; f[i] != '\0'; i++) {
        bool is_digit = text.p[i] >= '0' && text.p[i] <= '9';
        if (f[i] == '0' ? !is_digit : text.p[i] != '-' && text.p[i] != '/')
            return false;
        if (is_packed && (i == 4 || i == 6))
            out[n++] = '-';
        out[n++] = f[i] == '0' ? text.p[i] : '-';
    }
    *rest = bytes_slice(text, is_packed ? 8 : 10, text.n);
    return true;
}

/* A time without a zone is UTC: a usage export of days is in UTC or says what it is in. */
static bool read_time(struct bytes text, int64_t *ms)
{
    char whole[64];
    struct bytes rest, words = BYTES(" UTC");
    if (!take_date(text, whole, &rest))
        return false;
    if (bytes_ends_with(rest, words))
        rest = bytes_slice(rest, 0, rest.n - words.n);
    if (rest.n == 0)
        rest = BYTES("T00:00:00");
    if (rest.n > 40)
        return false;
    memcpy(whole + 10, rest.p, rest.n);
    size_t n = 10 + rest.n;
    bool has_zone = bytes_find_byte(rest, '+') != SIZE_MAX || bytes_find_byte(rest, '-') != SIZE_MAX ||
                    rest.p[rest.n - 1] == 'Z' || rest.p[rest.n - 1] == 'z';
    if (!has_zone)
        whole[n++] = 'Z';
    return text_time_parse(bytes_from(whole, n), ms);
}

static bool read_day(struct bytes text, int64_t *day)
{
    int64_t ms;
    uint64_t v;
    if (bytes_to_u64(text, &v) && v > 100000000 && v < UINT64_C(100000000000000))
        ms = (int64_t)v * (v < UINT64_C(100000000000) ? 1000 : 1); /* seconds or milliseconds since 1970 */
    else if ((!read_time(text, &ms) && !text_time_parse(text, &ms)) || ms < 0)
        return false;
    *day = ms / DAY_MS;
    return true;
}

/* Three digits and no more follow: what a comma means in "1,5" is anyone's guess. */
static bool is_thousands(struct bytes text, size_t comma)
{
    size_t n = 0;
    while (comma + 1 + n < text.n && text.p[comma + 1 + n] >= '0' && text.p[comma + 1 + n] <= '9')
        n++;
    return n == 3;
}

/* Without the commas of thousands and a dollar sign. Empty is 0. */
static const char *read_amount(struct bytes text, int places, int64_t *out)
{
    char plain[64];
    size_t n = 0;
    bool is_rounded, is_negative = text.n > 0 && text.p[0] == '-';
    for (size_t i = is_negative; i < text.n; i++) {
        if (text.p[i] == ',' && !is_thousands(text, i))
            return "has a comma that does not part thousands";
        if (text.p[i] == ',' || text.p[i] == '$')
            continue;
        if (n == sizeof plain)
            return "is not a number";
        plain[n++] = text.p[i];
    }
    *out = 0;
    if (text.n == 0)
        return NULL;
    const char *why = decimal_units(bytes_from(plain, n), places, INT64_MAX / 4, out, &is_rounded);
    if (is_negative)
        *out = -*out;
    return why;
}

static const char *read_values(const struct record *rec, const struct columns *c, struct invoice_row *row,
                               const char **word)
{
    int64_t *const to[INVOICE_N_COLUMNS] = {[INVOICE_INPUT] = &row->usage.input,
                                            [INVOICE_READ] = &row->usage.cache_read,
                                            [INVOICE_WRITE_5M] = &row->usage.cache_write_5m,
                                            [INVOICE_WRITE_1H] = &row->usage.cache_write_1h,
                                            [INVOICE_OUTPUT] = &row->usage.output,
                                            [INVOICE_REQUESTS] = &row->requests,
                                            [INVOICE_COST] = &row->cost_nusd};
    for (int k = 0; k < INVOICE_N_COLUMNS; k++) {
        if (to[k] == NULL || c->at[k] == SIZE_MAX)
            continue;
        if (c->at[k] >= rec->n)
            return "the row is shorter than the first line";
        *word = invoice_word((enum invoice_column)k);
        const char *why = read_amount(rec->fields[c->at[k]], k == INVOICE_COST ? 9 : 0, to[k]);
        if (why != NULL)
            return why;
        if (k != INVOICE_COST && *to[k] < 0)
            return "is negative";
    }
    return NULL;
}

static bool is_empty(const struct record *rec)
{
    return rec->n == 1 && rec->fields[0].n == 0;
}

/* "Total,,,12.50" below the rows: a sum of no day, or of no model. */
static bool is_sum(const struct record *rec, const struct columns *c)
{
    size_t day = c->at[INVOICE_DAY], model = c->at[INVOICE_MODEL];
    int64_t v;
    if (day >= rec->n || model >= rec->n || read_day(rec->fields[day], &v))
        return false;
    return rec->fields[day].n == 0 || rec->fields[model].n == 0;
}

/* NULL, or why not; *word: of which column, NULL = of the row. */
static const char *read_row(struct reading *r, const struct record *rec, const struct columns *c,
                            struct invoice_row *row, const char **word)
{
    if (c->at[INVOICE_DAY] >= rec->n || c->at[INVOICE_MODEL] >= rec->n)
        return "the row is shorter than the first line";
    *row = (struct invoice_row){.line = rec->line, .usage = USAGE_NONE, .requests = -1, .cost_nusd = NUSD_UNKNOWN};
    if (!read_day(rec->fields[c->at[INVOICE_DAY]], &row->day))
        return "its day is neither 2026-07-18, nor a time, nor seconds since 1970";
    row->model = arena_dup(r->arena, rec->fields[c->at[INVOICE_MODEL]]);
    return read_values(rec, c, row, word);
}

static size_t count_lines(struct bytes text)
{
    size_t n = 1;
    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    return n;
}

static enum err tell(struct reading *r, unsigned line, const char *word, const char *what)
{
    buf_printf(r->why, "line %u: %s%s%s", line, word != NULL ? word : "", word != NULL ? " " : "", what);
    return ERR_SYNTAX;
}

static enum err read_rows(struct reading *r, const struct columns *c, struct invoice *out)
{
    struct record rec;
    while (r->rest.n > 0) {
        const char *word = NULL, *fault = take_record(r, &rec);
        if (fault == NULL && is_empty(&rec))
            continue;
        if (fault == NULL && is_sum(&rec, c)) {
            out->n_sums++;
            continue;
        }
        if (fault == NULL)
            fault = read_row(r, &rec, c, &out->rows[out->n], &word);
        if (fault != NULL)
            return tell(r, rec.line, word, fault);
        out->n++;
    }
    return ERR_OK;
}

enum err invoice_read(struct bytes text, const char *const columns[INVOICE_N_COLUMNS], struct arena *arena,
                      struct invoice *out, struct buf *why)
{
    struct columns c;
    struct record rec;
    if (bytes_starts_with(text, BYTES("\xef\xbb\xbf")))
        text = bytes_slice(text, 3, text.n);
    struct reading r = {.rest = text, .line = 1, .separator = separator_of(text), .arena = arena, .why = why};
    size_t max = count_lines(text);
    *out = (struct invoice){0};
    if (max > ROWS_MAX)
        return tell(&r, ROWS_MAX, NULL, "more than a million rows");
    const char *fault = take_record(&r, &rec);
    if (fault != NULL)
        return tell(&r, 1, NULL, fault);
    enum err e = read_head(&rec, columns, &c, out, why);
    if (e != ERR_OK)
        return e;
    out->rows = ARENA_ARRAY(arena, struct invoice_row, max);
    return read_rows(&r, &c, out);
}
