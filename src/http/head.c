/* Heads. Nearly all are plainly right and are taken in one quick pass (head_quick.c). The others are looked at in two
 * strict passes over the same bytes. The first walks them line by line and takes nothing that two parsers could
 * read in two ways: line ends are CRLF, no control bytes, no folded line, the limits hold. It stops at the first
 * offence, so a prefix never says something else than the whole. The second gives the head to llhttp, which knows the
 * grammar; what frames the body is then decided here from the fields alone (RFC 9112 6.3), because that is where
 * smuggling lives.
 *
 * Empty lines before a request line are skipped (RFC 9112 2.2), a few of them. */
#include "http/head.h"

#include "http/head_quick.h"

#include <llhttp.h>

enum { EMPTY_LINES_MAX = 4 };

struct parse {
    llhttp_t llhttp;
    struct head *out;
    size_t cap;
    bool is_complete;
};

/* ---- first pass: the lines ---- */

struct walk {
    const char *p;
    size_t n, at; /* the input, and the byte being looked at */
    size_t start; /* of the start line */
    size_t n_lines;
    const char *why;
};

static bool is_text_byte(unsigned char c)
{
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

/* Moves over one line. HEAD_OK: *end is the line's end, at stands after CRLF. */
static enum head_result walk_line(struct walk *w, size_t limit, size_t *end)
{
    for (size_t i = w->at; i < w->n; i++) {
        unsigned char c = (unsigned char)w->p[i];
        if (i >= limit)
            return HEAD_TOO_LARGE;
        if (is_text_byte(c))
            continue;
        if (c != '\r') {
            w->why = c == '\n' ? "a line ends with a bare LF" : "a control character stands in the head";
            return HEAD_BAD;
        }
        if (i + 1 >= w->n)
            return i + 1 >= limit ? HEAD_TOO_LARGE : HEAD_MORE;
        if (i + 1 >= limit)
            return HEAD_TOO_LARGE;
        if (w->p[i + 1] != '\n') {
            w->why = "a bare CR stands in the head";
            return HEAD_BAD;
        }
        *end = i;
        w->at = i + 2;
        return HEAD_OK;
    }
    return w->n >= limit ? HEAD_TOO_LARGE : HEAD_MORE;
}

/* The colon of a field line directly follows its name, and the line does not start with a blank (obs-fold). */
static bool field_line_is_sound(struct walk *w, struct bytes line)
{
    size_t colon = bytes_find_byte(line, ':');
    if (line.p[0] == ' ' || line.p[0] == '\t')
        w->why = "a folded header line";
    else if (colon == SIZE_MAX || colon == 0)
        w->why = "a header line without a name";
    else if (line.p[colon - 1] == ' ' || line.p[colon - 1] == '\t')
        w->why = "a blank before the colon of a header";
    else
        return true;
    return false;
}

/* "HTTP/1.x": HEAD_OK; "HTTP/2.0" and the like: HEAD_VERSION; anything else: HEAD_BAD. */
static enum head_result check_version(struct walk *w, struct bytes v, unsigned *minor)
{
    if (v.n != 8 || memcmp(v.p, "HTTP/", 5) != 0 || v.p[5] < '0' || v.p[5] > '9' || v.p[6] != '.' || v.p[7] < '0' ||
        v.p[7] > '9') {
        w->why = "the start line names no HTTP version";
        return HEAD_BAD;
    }
    if (v.p[5] != '1' || v.p[7] > '1') {
        w->why = "only HTTP/1.0 and HTTP/1.1 are spoken here";
        return HEAD_VERSION;
    }
    *minor = (unsigned)(v.p[7] - '0');
    return HEAD_OK;
}

static enum head_result check_request_line(struct walk *w, struct bytes line, struct head *out)
{
    size_t first = bytes_find_byte(line, ' ');
    struct bytes rest = first == SIZE_MAX ? (struct bytes){0} : bytes_slice(line, first + 1, line.n);
    size_t second = bytes_find_byte(rest, ' ');
    if (first == SIZE_MAX || second == SIZE_MAX || first == 0 || second == 0) {
        w->why = "the request line is malformed";
        return HEAD_BAD;
    }
    out->method = bytes_slice(line, 0, first);
    out->target = bytes_slice(rest, 0, second);
    for (size_t i = 0; i < out->target.n; i++) {
        unsigned char c = (unsigned char)out->target.p[i];
        if (c <= 0x20 || c >= 0x7f || c == '#') {
            w->why = "the request target holds a forbidden character";
            return HEAD_BAD;
        }
    }
    return check_version(w, bytes_slice(rest, second + 1, rest.n), &out->minor);
}

/* The status must be three digits followed by a blank or nothing (RFC 9112 4; the blank is often left out). */
static enum head_result check_status_line(struct walk *w, struct bytes line, struct head *out)
{
    enum head_result r = check_version(w, bytes_slice(line, 0, 8), &out->minor);
    if (r != HEAD_OK)
        return r;
    uint64_t status = 0;
    if (line.n < 12 || line.p[8] != ' ' || !bytes_to_u64(bytes_slice(line, 9, 12), &status) || status < 100 ||
        (line.n > 12 && line.p[12] != ' ')) {
        w->why = "the status line is malformed";
        return HEAD_BAD;
    }
    out->status = (uint16_t)status;
    return HEAD_OK;
}

/* What is not HTTP at all need not wait for a line end: a response starts with "HTTP/". */
static bool begins_as_response(struct bytes in)
{
    struct bytes word = BYTES("HTTP/");
    size_t n = in.n < word.n ? in.n : word.n;
    return n == 0 || memcmp(in.p, word.p, n) == 0;
}

static enum head_result walk_start_line(struct walk *w, enum head_kind kind, size_t limit, struct head *out)
{
    size_t end = 0;
    for (int n_empty = 0;; n_empty++) {
        w->start = w->at;
        enum head_result r = walk_line(w, limit, &end);
        if (r != HEAD_OK)
            return r;
        if (end != w->start)
            break;
        if (kind == HEAD_RESPONSE || n_empty == EMPTY_LINES_MAX) {
            w->why = "an empty line instead of a start line";
            return HEAD_BAD;
        }
    }
    struct bytes line = {w->p + w->start, end - w->start};
    return kind == HEAD_REQUEST ? check_request_line(w, line, out) : check_status_line(w, line, out);
}

static enum head_result walk_head(struct walk *w, enum head_kind kind, const struct head_limits *limits,
                                  struct head *out)
{
    enum head_result r = walk_start_line(w, kind, limits->bytes, out);
    while (r == HEAD_OK) {
        size_t from = w->at, end = 0;
        r = walk_line(w, limits->bytes, &end);
        if (r != HEAD_OK)
            break;
        if (end == from)
            return HEAD_OK;
        if (++w->n_lines > limits->fields)
            return HEAD_TOO_LARGE;
        if (!field_line_is_sound(w, (struct bytes){w->p + from, end - from}))
            return HEAD_BAD;
    }
    return r;
}

/* ---- second pass: llhttp ---- */

static int on_field(llhttp_t *l, const char *at, size_t n)
{
    struct parse *p = l->data;
    struct fields *f = &p->out->fields;
    if (f->n == p->cap)
        return -1;
    f->v[f->n++] = (struct field){.name = {at, n}, .value = {at, 0}};
    return 0;
}

static int on_value(llhttp_t *l, const char *at, size_t n)
{
    struct parse *p = l->data;
    struct fields *f = &p->out->fields;
    if (f->n == 0)
        return -1;
    f->v[f->n - 1].value = bytes_trim((struct bytes){at, n});
    return 0;
}

static int on_head_complete(llhttp_t *l)
{
    struct parse *p = l->data;
    p->is_complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_head_complete,
};

static bool run_llhttp(struct bytes in, enum head_kind kind, size_t n_lines, struct arena *arena, struct head *out,
                       const char **why)
{
    struct parse p = {.out = out, .cap = n_lines};
    out->fields.v = ARENA_ARRAY(arena, struct field, n_lines + 1);
    llhttp_init(&p.llhttp, kind == HEAD_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
    p.llhttp.data = &p;
    llhttp_errno_t e = llhttp_execute(&p.llhttp, in.p, in.n);
    for (size_t i = 0; i < out->fields.n; i++)
        out->fields.marks |= field_mark(out->fields.v[i].name);
    if (p.is_complete && out->fields.n == n_lines && (e == HPE_OK || e == HPE_PAUSED || e == HPE_PAUSED_UPGRADE))
        return true;
    const char *reason = llhttp_get_error_reason(&p.llhttp); /* static text */
    *why = reason && reason[0] ? reason : "the head is malformed";
    return false;
}

/* ---- what the fields mean ---- */

/* Is `token` in a comma-separated list, over all fields of that name? */
static bool list_has(const struct fields *f, struct bytes name, struct bytes token)
{
    if (!fields_may_have(f, name))
        return false;
    for (size_t at = fields_find(f, name, 0); at < f->n; at = fields_find(f, name, at + 1)) {
        struct bytes rest = f->v[at].value;
        while (rest.n > 0)
            if (bytes_eq_nocase(bytes_trim(bytes_cut(&rest, ',')), token))
                return true;
    }
    return false;
}

static size_t count(const struct fields *f, struct bytes name, struct bytes *first)
{
    return fields_may_have(f, name) ? fields_count_of(f, name, first) : 0;
}

static enum head_result read_framing(struct head *h, enum head_kind kind, const char **why)
{
    struct bytes length, coding;
    size_t n_lengths = count(&h->fields, BYTES("content-length"), &length);
    size_t n_codings = count(&h->fields, BYTES("transfer-encoding"), &coding);
    if (n_lengths > 0 && n_codings > 0) {
        *why = "both Content-Length and Transfer-Encoding";
        return HEAD_BAD;
    }
    if (n_codings > 0) {
        if (n_codings > 1 || h->minor == 0 || !bytes_eq_nocase(coding, BYTES("chunked"))) {
            *why = "a Transfer-Encoding that is not exactly chunked";
            return HEAD_BAD;
        }
        h->framing = FRAMING_CHUNKED;
        return HEAD_OK;
    }
    if (n_lengths > 0) {
        if (n_lengths > 1 || !bytes_to_u64(length, &h->content_length)) {
            *why = "Content-Length is not one number";
            return HEAD_BAD;
        }
        h->framing = FRAMING_LENGTH;
        return HEAD_OK;
    }
    h->framing = kind == HEAD_REQUEST ? FRAMING_NONE : FRAMING_UNTIL_CLOSE;
    return HEAD_OK;
}

static bool is_authority(struct bytes a)
{
    static const bool is_good[256] = {
        ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true, ['-'] = true, ['.'] = true, ['_'] = true,
        ['~'] = true,         ['%'] = true,         ['!'] = true,         ['$'] = true, ['&'] = true, ['('] = true,
        [')'] = true,         ['*'] = true,         ['+'] = true,         ['='] = true, [';'] = true, [':'] = true,
        ['['] = true,         [']'] = true,         ['\''] = true};
    for (size_t i = 0; i < a.n; i++)
        if (!is_good[(unsigned char)a.p[i]])
            return false;
    return true;
}

static enum head_result read_host(struct head *h, const char **why)
{
    size_t n = count(&h->fields, BYTES("host"), &h->host);
    if (n > 1 || (n == 0 && h->minor > 0)) {
        *why = n > 1 ? "several Host headers" : "no Host header";
        return HEAD_BAD;
    }
    if (!is_authority(h->host)) {
        *why = "the Host header is malformed";
        return HEAD_BAD;
    }
    return HEAD_OK;
}

static void split_path(struct head *h, struct bytes t)
{
    h->path = bytes_cut(&t, '?');
    h->query = t;
}

/* Origin, absolute, authority (CONNECT) and asterisk form: RFC 9112 3.2. */
static enum head_result read_target(struct head *h, const char **why)
{
    struct bytes t = h->target;
    if (t.p[0] == '/' || bytes_is(t, "*")) {
        split_path(h, t);
        return HEAD_OK;
    }
    if (bytes_is(h->method, "CONNECT"))
        return HEAD_OK;
    size_t skip = bytes_find_nocase(bytes_slice(t, 0, 7), BYTES("http://")) == 0    ? 7
                  : bytes_find_nocase(bytes_slice(t, 0, 8), BYTES("https://")) == 0 ? 8
                                                                                    : 0;
    size_t end = skip;
    while (end < t.n && t.p[end] != '/' && t.p[end] != '?')
        end++;
    struct bytes authority = bytes_slice(t, skip, end);
    if (skip == 0 || authority.n == 0 || !is_authority(authority)) {
        *why = "the request target is malformed";
        return HEAD_BAD;
    }
    h->host = authority;
    split_path(h, bytes_slice(t, end, t.n));
    if (h->path.n == 0)
        h->path = BYTES("/");
    return HEAD_OK;
}

static enum head_result read_request(struct head *h, const char **why)
{
    enum head_result r = read_host(h, why);
    if (r == HEAD_OK)
        r = read_target(h, why);
    h->expects_continue = h->minor > 0 && bytes_eq_nocase(fields_get(&h->fields, "expect"), BYTES("100-continue"));
    return r;
}

static void read_response(struct head *h, bool is_head_request)
{
    if (is_head_request || h->status < 200 || h->status == 204 || h->status == 304) {
        h->framing = FRAMING_NONE;
        h->content_length = 0;
    }
}

static enum head_result read_meaning(struct head *h, enum head_kind kind, bool is_head_request, const char **why)
{
    enum head_result r = read_framing(h, kind, why);
    if (r != HEAD_OK)
        return r;
    if (kind == HEAD_RESPONSE)
        read_response(h, is_head_request);
    else
        r = read_request(h, why);
    struct bytes name = BYTES("connection");
    bool says_close = fields_may_have(&h->fields, name) && list_has(&h->fields, name, BYTES("close"));
    h->keep_alive = !says_close && h->framing != FRAMING_UNTIL_CLOSE &&
                    (h->minor > 0 || list_has(&h->fields, name, BYTES("keep-alive")));
    return r;
}

static enum head_result parse_strictly(struct bytes in, enum head_kind kind, bool is_head_request,
                                       const struct head_limits *limits, struct arena *arena, struct head *out,
                                       size_t *used, const char **why)
{
    struct walk w = {.p = in.p, .n = in.n, .why = ""};
    if (kind == HEAD_RESPONSE && !begins_as_response(in)) {
        *why = "not an HTTP/1 response";
        return HEAD_BAD;
    }
    enum head_result r = walk_head(&w, kind, limits, out);
    *why = r == HEAD_TOO_LARGE ? "the head is over its limit" : w.why;
    if (r != HEAD_OK)
        return r;
    if (!run_llhttp((struct bytes){in.p + w.start, w.at - w.start}, kind, w.n_lines, arena, out, why))
        return HEAD_BAD;
    *used = w.at;
    return read_meaning(out, kind, is_head_request, why);
}

enum head_result head_parse(struct bytes in, enum head_kind kind, bool is_head_request,
                            const struct head_limits *limits, struct arena *arena, struct head *out, size_t *used,
                            const char **why)
{
    *out = (struct head){0};
    *why = "";
    if (in.n > 0 && head_quick(in, kind, limits, arena, out, used) &&
        read_meaning(out, kind, is_head_request, why) == HEAD_OK)
        return HEAD_OK;
    *out = (struct head){0};
    *used = 0;
    return parse_strictly(in, kind, is_head_request, limits, arena, out, used, why);
}

static const char *follow(const char *p, uintptr_t way)
{
    return (const char *)((uintptr_t)p + way);
}

/* There may be none, and a path may be a literal, which stays. */
static void follow_if_in(struct bytes *view, struct bytes from, uintptr_t way)
{
    if ((uintptr_t)view->p - (uintptr_t)from.p <= from.n)
        view->p = follow(view->p, way);
}

void head_move(struct head *h, struct bytes from, const char *to)
{
    uintptr_t way = (uintptr_t)to - (uintptr_t)from.p;
    if (h->method.n > 0) {
        h->method.p = follow(h->method.p, way);
        h->target.p = follow(h->target.p, way);
        follow_if_in(&h->path, from, way);
        follow_if_in(&h->query, from, way);
        follow_if_in(&h->host, from, way);
    }
    for (struct field *f = h->fields.v, *end = f + h->fields.n; f < end; f++) {
        f->name.p = follow(f->name.p, way);
        f->value.p = follow(f->value.p, way);
    }
}

/* ---- writing ---- */

static bool is_printable(struct bytes b, bool allows_blanks)
{
    if (allows_blanks && bytes_is_plain(b))
        return true;
    for (size_t i = 0; i < b.n; i++) {
        unsigned char c = (unsigned char)b.p[i];
        if (!is_text_byte(c) || (!allows_blanks && (c == ' ' || c == '\t')))
            return false;
    }
    return true;
}

void head_put_request(struct buf *out, const char *method, struct bytes target, struct bytes host)
{
    RM_ASSERT(is_printable(bytes_of(method), false));
    buf_puts(out, method);
    buf_putc(out, ' ');
    buf_put(out, is_printable(target, false) && target.n > 0 ? target : BYTES("/"));
    buf_puts(out, " HTTP/1.1\r\n");
    head_put_field(out, "host", host);
}

void head_put_status(struct buf *out, unsigned status)
{
    RM_ASSERT(status >= 100 && status <= 999);
    if (status == 200) {
        buf_puts(out, "HTTP/1.1 200 OK\r\n");
        return;
    }
    buf_puts(out, "HTTP/1.1 ");
    buf_put_u64(out, status);
    buf_putc(out, ' ');
    buf_puts(out, head_reason(status));
    buf_puts(out, "\r\n");
}

static char *put(char *at, struct bytes b)
{
    memcpy(at, b.p, b.n);
    return at + b.n;
}

void head_put_text(struct buf *out, struct bytes start, struct bytes value)
{
    if (!is_printable(value, true))
        return;
    size_t n = start.n + value.n + 2;
    char *at = buf_reserve(out, n);
    if (at == NULL)
        return;
    at = put(at, start);
    if (value.n > 0)
        at = put(at, value);
    at[0] = '\r';
    at[1] = '\n';
    buf_grew(out, n);
}

void head_put_line(struct buf *out, struct bytes name, struct bytes value)
{
    if (!is_printable(value, true))
        return;
    buf_put(out, name);
    head_put_text(out, BYTES(": "), value);
}

void head_put_named(struct buf *out, struct bytes name, struct bytes value)
{
    if (name.n > 0 && is_printable(name, false) && bytes_find_byte(name, ':') == SIZE_MAX)
        head_put_line(out, name, value);
}

void head_put_line_u64(struct buf *out, struct bytes name, uint64_t value)
{
    char room[BYTES_DIGITS_MAX];
    head_put_line(out, name, bytes_digits(value, room));
}

const char *head_reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } rows[] = {
        {100, "Continue"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {529, "Overloaded"},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (rows[i].status == status)
            return rows[i].text;
    return status < 400 ? "OK" : "Error";
}
