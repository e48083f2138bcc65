#include "config/settings.h"

#include "base/text.h"
#include "model/profile.h"
#include "price/price.h"

static const struct setting rows[] = {
#define RESTART SETTING_RESTART
#define MAY_BE_OFF SETTING_MAY_BE_OFF
#define SETTING(section_, struct_, member_, name_, kind_, min_, max_, default_, words_, refused_, flags_, text_) \
    {SECTION_##section_,                                                                                         \
     SETTING_##kind_,                                                                                            \
     name_,                                                                                                      \
     offsetof(struct struct_, member_),                                                                          \
     sizeof(((struct struct_ *)0)->member_),                                                                     \
     min_,                                                                                                       \
     max_,                                                                                                       \
     default_,                                                                                                   \
     words_,                                                                                                     \
     refused_,                                                                                                   \
     flags_,                                                                                                     \
     text_},
#include "config/settings.def"
#undef SETTING
#undef RESTART
#undef MAY_BE_OFF
};

const struct setting *settings_rows(size_t *n)
{
    *n = RM_COUNTOF(rows);
    return rows;
}

const char *settings_section_text(enum section s)
{
    static const char *const texts[SECTION_N] = {"the file", "admin",      "a client key", "a price", "a tier",
                                                 "limits",   "a provider", "a route",      "breaker", "ttft_auto",
                                                 "hedge",    "cache",      "a link",       "supports"};
    return texts[s];
}

/* ---- text to value ---- */

static bool is_number(enum setting_kind kind)
{
    return kind >= SETTING_COUNT && kind <= SETTING_RATE;
}

static void store(const struct setting *s, void *values, uint64_t v)
{
    char *at = (char *)values + s->offset;
    if (s->size == sizeof(uint32_t)) {
        RM_ASSERT(v <= UINT32_MAX);
        *(uint32_t *)(void *)at = (uint32_t)v;
    } else {
        RM_ASSERT(s->size == sizeof(uint64_t));
        *(uint64_t *)(void *)at = v;
    }
}

/* Index of `text` among "a|b|c". */
static bool find_word(const char *words, struct bytes text, uint64_t *index)
{
    struct bytes rest = bytes_of(words);
    for (*index = 0; rest.p != NULL && rest.n > 0; ++*index)
        if (bytes_eq(bytes_cut(&rest, '|'), text))
            return true;
    return false;
}

/* Digits, then one of nothing, K, M, G, KiB, MiB, GiB (all powers of 1024). */
static bool parse_bytes(struct bytes text, uint64_t *out)
{
    static const char letters[] = "KMG";
    unsigned shift = 0;
    if (bytes_ends_with(text, BYTES("iB")))
        text.n -= 2;
    else if (text.n > 0 && text.p[text.n - 1] == 'B')
        return false;
    const char *letter = text.n > 0 ? strchr(letters, text.p[text.n - 1]) : NULL;
    if (letter != NULL && *letter != '\0') {
        shift = 10 * (unsigned)(letter - letters + 1);
        text.n--;
    } else if (text.p != NULL && text.p[text.n] == 'i') {
        return false;
    }
    if (!bytes_to_u64(text, out) || *out > (UINT64_MAX >> shift))
        return false;
    *out <<= shift;
    return true;
}

enum { PERCENT_MAX = 90 };

static bool parse_memory(struct bytes text, uint64_t machine, uint64_t *out)
{
    if (!bytes_ends_with(text, BYTES("%")))
        return parse_bytes(text, out);
    text.n--;
    if (!bytes_to_u64(text, out) || *out < 1 || *out > PERCENT_MAX)
        return false;
    *out = machine / 100 * *out;
    return true;
}

/* Decimal text with up to six decimals, in millionths. */
static bool parse_micro(struct bytes text, uint64_t *out)
{
    int64_t v;
    if (!text_price(text, &v))
        return false;
    *out = (uint64_t)v;
    return true;
}

static bool parse_pico(struct bytes text, uint64_t *out)
{
    int64_t v;
    if (!price_request_parse(text, &v))
        return false;
    *out = (uint64_t)v;
    return true;
}

static bool in_range(const struct setting *s, uint64_t v)
{
    return s->max == 0 || (v >= s->min && v <= s->max);
}

static bool parse_number(const struct settings_reader *r, const struct setting *s, struct bytes text, uint64_t *out)
{
    uint64_t index;
    switch (s->kind) {
    case SETTING_BYTES:
        return parse_bytes(text, out) && in_range(s, *out);
    case SETTING_MEMORY: /* a small machine's share may be less than the least that can be written */
        return parse_memory(text, r->memory_bytes, out) && (bytes_ends_with(text, BYTES("%")) || in_range(s, *out));
    case SETTING_RATIO:
        if (!parse_micro(text, out) || *out % 1000 != 0)
            return false;
        *out /= 1000;
        return in_range(s, *out);
    case SETTING_PERCENT:
        if (!bytes_ends_with(text, BYTES("%")) || !parse_micro(bytes_slice(text, 0, text.n - 1), out) ||
            *out % 10000 != 0)
            return false;
        *out /= 10000;
        return in_range(s, *out);
    case SETTING_USD:
        if (!parse_micro(text, out) || *out > INT64_MAX / 1000)
            return false;
        *out *= 1000;
        return true;
    case SETTING_PER_REQUEST:
        return parse_pico(text, out);
    case SETTING_RATE:
        return parse_micro(text, out);
    default:
        if (find_word(s->words, text, &index)) {
            *out = 0;
            return true;
        }
        return bytes_to_u64(text, out) && in_range(s, *out);
    }
}

/* ---- what is expected, in words ---- */

static const char *number_noun(enum setting_kind kind)
{
    switch (kind) {
    case SETTING_MS:
        return "a whole number of milliseconds";
    case SETTING_SEC:
        return "a whole number of seconds";
    case SETTING_BYTES:
        return "bytes (also 64K, 32M, 1G)";
    case SETTING_MEMORY:
        return "bytes (also 512M, 1G) or 1% to 90% of the machine's memory";
    case SETTING_TOKENS:
        return "a whole number of tokens";
    case SETTING_RATIO:
        return "a decimal number";
    case SETTING_PERCENT:
        return "per cent like 2% or 0.5%";
    case SETTING_USD:
        return "US dollars as a decimal number like 1.00";
    case SETTING_PER_REQUEST:
        return "US dollars a request as a decimal number like 0.005, at most twelve decimals";
    case SETTING_RATE:
        return "US dollars per million tokens as a decimal number like 0.28, at most six decimals";
    default:
        return "a whole number";
    }
}

static void put_range(const struct setting *s, struct buf *out)
{
    if (s->max == 0)
        return;
    if (s->kind == SETTING_RATIO)
        buf_puts(out, " from 0.001 to 1, at most three decimals");
    else if (s->kind == SETTING_PERCENT)
        buf_puts(out, " from 0.01% to 100%");
    else if (s->kind == SETTING_MEMORY)
        buf_printf(out, ", at least %llu", (unsigned long long)s->min);
    else
        buf_printf(out, " from %llu to %llu", (unsigned long long)s->min, (unsigned long long)s->max);
}

static void put_words(const char *words, struct buf *out)
{
    struct bytes rest = bytes_of(words);
    for (bool is_first = true; rest.p != NULL && rest.n > 0; is_first = false) {
        buf_puts(out, is_first ? "" : " or ");
        buf_put(out, bytes_cut(&rest, '|'));
    }
}

void settings_expected(const struct setting *s, struct buf *out)
{
    if (is_number(s->kind)) {
        buf_puts(out, number_noun(s->kind));
        put_range(s, out);
        if (s->words[0] != '\0')
            buf_printf(out, ", or %s", s->words);
    } else if (s->kind == SETTING_WORD) {
        put_words(s->words, out);
    } else if (s->kind == SETTING_TRISTATE) {
        buf_puts(out, "true or false");
    } else {
        buf_puts(out, s->words);
    }
}

static const char *expected(const struct settings_reader *r, const struct setting *s)
{
    struct buf text = {0};
    settings_expected(s, &text);
    const char *kept = arena_dup(&r->log->faults->arena, buf_bytes(&text)).p;
    buf_fini(&text);
    return kept;
}

/* ---- defaults ---- */

static void store_default(const struct settings_reader *r, const struct setting *s, void *values)
{
    uint64_t v = 0;
    struct bytes text = bytes_of(s->standard);
    if (text.n == 0)
        return;
    bool is_good = true;
    if (s->kind == SETTING_TEXT) {
        *(const char **)(void *)((char *)values + s->offset) = s->standard;
        return;
    }
    if (s->kind == SETTING_ANY)
        return; /* told on the page; given by the section's own file */
    if (s->kind == SETTING_WORD)
        is_good = find_word(s->words, text, &v);
    else
        is_good = parse_number(r, s, text, &v);
    RM_ASSERT(is_good);
    store(s, values, v);
}

void settings_defaults(const struct settings_reader *r, enum section section, void *values)
{
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (rows[i].section == section)
            store_default(r, &rows[i], values);
}

/* ---- reading ---- */

static const struct setting *find_row(enum section section, struct bytes name)
{
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (rows[i].section == section && bytes_is(name, rows[i].name))
            return &rows[i];
    return NULL;
}

static void tell_unknown(const struct settings_reader *r, enum section section, const struct node *item)
{
    const char *names[RM_COUNTOF(rows) + 1];
    size_t n = 0;
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (rows[i].section == section)
            names[n++] = rows[i].name;
    names[n] = NULL;
    const char *key = fault_quote(r->log, item->key);
    const char *hint = fault_hint(r->log, item->key, names);
    for (unsigned other = 0; hint[0] == '\0' && other < SECTION_N; other++)
        if (find_row((enum section)other, item->key) != NULL)
            hint =
                arena_printf(&r->log->faults->arena, "; it is one of %s", settings_section_text((enum section)other)).p;
    fault_error(r->log, place_of_key(item), "\"%s\" is not a setting of %s%s", key, settings_section_text(section),
                hint);
}

static void tell_unbuilt(const struct settings_reader *r, const struct setting *s, const struct node *item)
{
    if (item->kind != NODE_MAP || item->first == NULL) {
        fault_error(r->log, place_of_key(item), "\"%s\" is not built yet; leave it out", s->name);
        return;
    }
    NODE_EACH(item, part)
    fault_error(r->log, place_of_key(part), "\"%s.%s\" is not built yet; leave it out", s->name,
                fault_quote(r->log, part->key));
}

static void tell_type(const struct settings_reader *r, const struct setting *s, const struct node *item)
{
    fault_error(r->log, place_of(item), "\"%s\" is %s; expected %s", s->name, node_kind_text(item), expected(r, s));
}

static void read_collection(const struct settings_reader *r, const struct setting *s, const struct node *item,
                            void *values)
{
    enum node_kind kind = s->kind == SETTING_MAP ? NODE_MAP : NODE_LIST;
    if (node_is_empty(item))
        return; /* `headers:` with every line below it commented out */
    if (s->kind != SETTING_ANY && item->kind != kind)
        tell_type(r, s, item);
    else
        *(const struct node **)(void *)((char *)values + s->offset) = item;
}

static void read_text(const struct settings_reader *r, const struct setting *s, const struct node *item, void *values)
{
    for (size_t i = 0; i < item->text.n; i++) {
        unsigned char c = (unsigned char)item->text.p[i];
        if (c >= 0x20 && c != 0x7f)
            continue;
        fault_error(r->log, place_of(item), "\"%s\" holds a control character", s->name);
        return;
    }
    bool may_be_off = item->off_variable != NULL && (s->flags & SETTING_MAY_BE_OFF) != 0;
    if (item->text.n == 0 && !may_be_off)
        fault_error(r->log, place_of(item), "\"%s\" is empty; expected %s", s->name, s->words);
    else
        *(const char **)(void *)((char *)values + s->offset) = arena_dup(r->arena, item->text).p;
}

static bool parse_scalar(const struct settings_reader *r, const struct setting *s, struct bytes text, uint64_t *v)
{
    if (s->kind == SETTING_WORD)
        return find_word(s->words, text, v);
    if (s->kind == SETTING_TRISTATE) {
        *v = bytes_is(text, "true") ? YES : NO;
        return bytes_is(text, "true") || bytes_is(text, "false");
    }
    return parse_number(r, s, text, v);
}

static void read_scalar(const struct settings_reader *r, const struct setting *s, const struct node *item, void *values)
{
    uint64_t v = 0, refused;
    if (item->kind != NODE_SCALAR || node_is_empty(item)) {
        tell_type(r, s, item);
    } else if (s->kind == SETTING_TEXT) {
        read_text(r, s, item, values);
    } else if (find_word(s->refused, item->text, &refused)) {
        fault_error(r->log, place_of(item), "\"%s: %s\" is not built yet; expected %s", s->name, s->refused,
                    expected(r, s));
    } else if (parse_scalar(r, s, item->text, &v)) {
        store(s, values, v);
    } else {
        fault_error(r->log, place_of(item), "\"%s\" is \"%s\"; expected %s", s->name, fault_quote(r->log, item->raw),
                    expected(r, s));
    }
}

static void read_item(const struct settings_reader *r, const struct setting *s, const struct node *item, void *values)
{
    if (item->is_faulty)
        return;
    switch (s->kind) {
    case SETTING_UNBUILT:
        tell_unbuilt(r, s, item);
        break;
    case SETTING_MAP:
    case SETTING_LIST:
    case SETTING_ANY:
        read_collection(r, s, item, values);
        break;
    default:
        read_scalar(r, s, item, values);
        break;
    }
}

bool settings_read(const struct settings_reader *r, enum section section, const struct node *map, void *values)
{
    if (map->kind != NODE_MAP) {
        fault_error(r->log, place_of(map), "%s is %s; expected a map of its settings", settings_section_text(section),
                    node_kind_text(map));
        return false;
    }
    NODE_EACH(map, item)
    {
        const struct setting *s = find_row(section, item->key);
        if (s == NULL)
            tell_unknown(r, section, item);
        else
            read_item(r, s, item, values);
    }
    return true;
}
