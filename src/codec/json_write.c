/* Nearly every text is plain: one look tells, eight bytes at a time, and it goes out with its quotes and what stands
 * around it in one piece. Only others are cut into runs and escapes. */
#include "codec/json_write.h"

enum { DEPTH_MAX = 63 };

void jw_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

static uint64_t bit(const struct json_writer *w)
{
    return UINT64_C(1) << w->depth;
}

/* A value or a key comes next: must a comma stand before it? When something stands at this depth already. */
static bool takes_comma(struct json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return false;
    }
    bool comma = (w->has_item & bit(w)) != 0;
    w->has_item |= bit(w);
    return comma;
}

static void separate(struct json_writer *w)
{
    if (takes_comma(w))
        buf_putc(w->out, ',');
}

static void open_one(struct json_writer *w, char c, bool is_array)
{
    separate(w);
    RM_ASSERT(w->depth < DEPTH_MAX);
    buf_putc(w->out, c);
    w->depth++;
    w->has_item &= ~bit(w);
    if (is_array)
        w->is_array |= bit(w);
    else
        w->is_array &= ~bit(w);
}

void jw_object(struct json_writer *w)
{
    open_one(w, '{', false);
}

void jw_array(struct json_writer *w)
{
    open_one(w, '[', true);
}

void jw_end(struct json_writer *w)
{
    RM_ASSERT(w->depth > 0 && !w->after_key);
    buf_putc(w->out, w->is_array & bit(w) ? ']' : '}');
    w->depth--;
}

/* Length of the well-formed UTF-8 sequence at p, 0 when there is none. */
static size_t sequence(const unsigned char *p, size_t n)
{
    size_t want = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    return want <= n && bytes_is_utf8(bytes_from(p, want)) ? want : 0;
}

static void escape(struct buf *out, unsigned char c)
{
    static const char short_forms[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    for (size_t i = 0; i + 1 < sizeof short_forms - 1; i += 2)
        if ((unsigned char)short_forms[i] == c) {
            buf_putc(out, '\\');
            buf_putc(out, short_forms[i + 1]);
            return;
        }
    static const char digits[] = "0123456789abcdef";
    char text[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
    buf_put(out, bytes_from(text, sizeof text));
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Sets the high bit of bytes that cannot stand in a string as they are, or must be looked at: controls, quote,
 * backslash, not ASCII. The lowest bit set is right, those above it may not be. */
static uint64_t odd_of_eight(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    uint64_t quote = v ^ EACH('"'), backslash = v ^ EACH('\\');
    return (((v - EACH(0x20)) & ~v) | (quote - EACH(1)) | (backslash - EACH(1)) | v) & EACH(0x80);
}

static bool is_odd(unsigned char c)
{
    return c < 0x20 || c >= 0x80 || c == '"' || c == '\\';
}

/* How many bytes from p on are plain. */
static size_t plain_run(const unsigned char *p, size_t n)
{
    size_t i = 0;
    while (n - i >= 8 && odd_of_eight(p + i) == 0)
        i += 8;
    while (i < n && !is_odd(p[i]))
        i++;
    return i;
}

bool json_is_plain(struct bytes s)
{
    return plain_run((const unsigned char *)s.p, s.n) == s.n;
}

static void put_odd(struct buf *out, struct bytes s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t from = 0, i = 0;
    while ((i += plain_run(p + i, s.n - i)) < s.n) {
        unsigned char c = p[i];
        size_t whole = c >= 0x80 ? sequence(p + i, s.n - i) : 0;
        if (whole > 0) {
            i += whole;
            continue;
        }
        buf_put(out, bytes_slice(s, from, i));
        if (c >= 0x80)
            buf_puts(out, "\xef\xbf\xbd");
        else
            escape(out, c);
        from = ++i;
    }
    buf_put(out, bytes_slice(s, from, s.n));
}

/* The text in quotes; `colon` behind a name. */
static void quoted(struct json_writer *w, struct bytes s, bool colon)
{
    struct buf *out = w->out;
    bool comma = takes_comma(w);
    if (!json_is_plain(s)) {
        buf_put(out, comma ? BYTES(",\"") : BYTES("\""));
        put_odd(out, s);
        buf_put(out, colon ? BYTES("\":") : BYTES("\""));
        return;
    }
    size_t n = s.n + 2 + comma + colon;
    char *at = buf_reserve(out, n);
    if (at == NULL)
        return;
    if (comma)
        *at++ = ',';
    *at++ = '"';
    if (s.n > 0)
        memcpy(at, s.p, s.n);
    at[s.n] = '"';
    if (colon)
        at[s.n + 1] = ':';
    buf_grew(out, n);
}

void jw_key_bytes(struct json_writer *w, struct bytes name)
{
    RM_ASSERT(!w->after_key);
    quoted(w, name, true);
    w->after_key = true;
}

void jw_key(struct json_writer *w, const char *name)
{
    jw_key_bytes(w, bytes_of(name));
}

void jw_string(struct json_writer *w, struct bytes s)
{
    quoted(w, s, false);
}

void jw_cstr(struct json_writer *w, const char *s)
{
    jw_string(w, bytes_of(s));
}

void jw_int(struct json_writer *w, int64_t v)
{
    separate(w);
    buf_put_i64(w->out, v);
}

void jw_uint(struct json_writer *w, uint64_t v)
{
    separate(w);
    buf_put_u64(w->out, v);
}

void jw_bool(struct json_writer *w, bool v)
{
    separate(w);
    buf_put(w->out, v ? BYTES("true") : BYTES("false"));
}

void jw_null(struct json_writer *w)
{
    separate(w);
    buf_put(w->out, BYTES("null"));
}

void jw_raw(struct json_writer *w, struct bytes json)
{
    separate(w);
    buf_put(w->out, json);
}

void jw_named_int(struct json_writer *w, const char *name, int64_t v)
{
    jw_key(w, name);
    jw_int(w, v);
}

void jw_named_uint(struct json_writer *w, const char *name, uint64_t v)
{
    jw_key(w, name);
    jw_uint(w, v);
}

void jw_named_bool(struct json_writer *w, const char *name, bool v)
{
    jw_key(w, name);
    jw_bool(w, v);
}

void jw_named_string(struct json_writer *w, const char *name, struct bytes v)
{
    jw_key(w, name);
    jw_string(w, v);
}

void jw_named_cstr(struct json_writer *w, const char *name, const char *v)
{
    jw_key(w, name);
    jw_cstr(w, v);
}

void jw_named_text(struct json_writer *w, const char *name, const char *v)
{
    jw_key(w, name);
    if (v == NULL || *v == '\0')
        jw_null(w);
    else
        jw_cstr(w, v);
}

void jw_named_count(struct json_writer *w, const char *name, int64_t v)
{
    jw_named_known(w, name, v, v >= 0);
}

void jw_named_known(struct json_writer *w, const char *name, int64_t v, bool is_known)
{
    jw_key(w, name);
    if (is_known)
        jw_int(w, v);
    else
        jw_null(w);
}
