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

/* What must stand before a value or a key: a comma when something stands at this depth already. */
static void separate(struct json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->has_item & bit(w))
        buf_putc(w->out, ',');
    w->has_item |= bit(w);
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

static void quoted(struct buf *out, struct bytes s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t plain = 0, i = 0;
    buf_putc(out, '"');
    while (i < s.n) {
        unsigned char c = p[i];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            i++;
            continue;
        }
        size_t whole = c >= 0x80 ? sequence(p + i, s.n - i) : 0;
        if (whole > 0) {
            i += whole;
            continue;
        }
        buf_put(out, bytes_slice(s, plain, i));
        if (c >= 0x80)
            buf_puts(out, "\xef\xbf\xbd");
        else
            escape(out, c);
        plain = ++i;
    }
    buf_put(out, bytes_slice(s, plain, s.n));
    buf_putc(out, '"');
}

void jw_key_bytes(struct json_writer *w, struct bytes name)
{
    RM_ASSERT(!w->after_key);
    separate(w);
    quoted(w->out, name);
    buf_putc(w->out, ':');
    w->after_key = true;
}

void jw_key(struct json_writer *w, const char *name)
{
    jw_key_bytes(w, bytes_of(name));
}

void jw_string(struct json_writer *w, struct bytes s)
{
    separate(w);
    quoted(w->out, s);
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
    buf_puts(w->out, v ? "true" : "false");
}

void jw_null(struct json_writer *w)
{
    separate(w);
    buf_puts(w->out, "null");
}

void jw_raw(struct json_writer *w, struct bytes json)
{
    separate(w);
    buf_put(w->out, json);
}
