/* The page has one marker, inside <script id="results" type="application/json">, and the results take its place. There
 * a browser's HTML reader looks for nothing but "<": "</script" ends the element, and "<!--" changes what ends it. In
 * JSON a "<" can only stand inside a string, where \u003c means the same. So "<" is written that way, and ">" and "&"
 * too: the page then stays whole in tools that read it as XML or unescape it once. Where the text is no JSON the escape
 * changes its meaning, but it had none. */
#include "lab/report.h"

extern const unsigned char report_page[];
extern const size_t report_page_n;

static const char *escape_of(char c)
{
    switch (c) {
    case '<':
        return "\\u003c";
    case '>':
        return "\\u003e";
    case '&':
        return "\\u0026";
    default:
        return NULL;
    }
}

static void put_escaped(struct bytes json, struct buf *out)
{
    size_t from = 0;
    for (size_t i = 0; i < json.n; i++) {
        const char *escape = escape_of(json.p[i]);
        if (!escape)
            continue;
        buf_put(out, bytes_slice(json, from, i));
        buf_puts(out, escape);
        from = i + 1;
    }
    buf_put(out, bytes_slice(json, from, json.n));
}

void report_html(struct bytes json, struct buf *out)
{
    struct bytes page = bytes_from(report_page, report_page_n), marker = BYTES("@RESULTS@");
    size_t at = bytes_find(page, marker);
    RM_ASSERT(at != SIZE_MAX);
    buf_put(out, bytes_slice(page, 0, at));
    put_escaped(json, out);
    buf_put(out, bytes_slice(page, at + marker.n, page.n));
}
