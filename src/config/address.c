#include "config/address.h"

enum { HOST_BYTES_MAX = 253 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_v6(struct bytes host)
{
    size_t n_colons = 0;
    for (size_t i = 0; i < host.n; i++) {
        char c = host.p[i];
        bool is_hex = is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (!is_hex && c != ':' && c != '.')
            return false;
        n_colons += c == ':';
    }
    return n_colons >= 2 && n_colons <= 7;
}

static bool is_host(struct bytes host)
{
    if (host.n == 0 || host.n > HOST_BYTES_MAX || host.p[0] == '.' || host.p[0] == '-')
        return false;
    for (size_t i = 0; i < host.n; i++) {
        char c = host.p[i];
        if (!is_digit(c) && !is_letter(c) && c != '-' && c != '.' && c != '_')
            return false;
        if (c == '.' && i + 1 < host.n && host.p[i + 1] == '.')
            return false;
    }
    return true;
}

static bool is_v4(struct bytes host)
{
    unsigned n = 0;
    for (struct bytes rest = host; rest.p != NULL; n++) {
        uint64_t v;
        if (n == 4 || !bytes_to_u64(bytes_cut(&rest, '.'), &v) || v > 255)
            return false;
    }
    return n == 4;
}

bool address_is_loopback(struct bytes host)
{
    if (bytes_eq_nocase(host, BYTES("localhost")) || bytes_is(host, "::1") || bytes_is(host, "0:0:0:0:0:0:0:1"))
        return true;
    return is_v4(host) && bytes_starts_with(host, BYTES("127."));
}

/* "host", "host:port", "[v6]", "[v6]:port" -> host without brackets; port.p NULL when there is none. */
static bool split_authority(struct bytes text, struct bytes *host, struct bytes *port)
{
    *port = (struct bytes){0};
    if (text.n > 0 && text.p[0] == '[') {
        size_t end = bytes_find_byte(text, ']');
        if (end == SIZE_MAX)
            return false;
        *host = bytes_slice(text, 1, end);
        struct bytes rest = bytes_slice(text, end + 1, text.n);
        if (rest.n > 0 && rest.p[0] != ':')
            return false;
        if (rest.n > 0)
            *port = bytes_slice(rest, 1, rest.n);
        return is_v6(*host);
    }
    struct bytes rest = text;
    *host = bytes_cut(&rest, ':');
    *port = rest;
    return is_host(*host);
}

static const char *lower(struct arena *a, struct bytes text)
{
    char *p = arena_alloc(a, text.n + 1);
    for (size_t i = 0; i < text.n; i++)
        p[i] = text.p[i] >= 'A' && text.p[i] <= 'Z' ? (char)(text.p[i] + ('a' - 'A')) : text.p[i];
    return p;
}

static const char *check_path(struct bytes path)
{
    for (size_t i = 0; i < path.n; i++)
        if ((unsigned char)path.p[i] <= 0x20 || (unsigned char)path.p[i] >= 0x7f ||
            memchr("\"<>\\^`{|}", path.p[i], 9) != NULL)
            return "has a character in its path that a URL cannot hold";
    static const char *const endpoints[] = {"/chat/completions", "/v1/messages", "/responses", "/completions"};
    for (size_t i = 0; i < RM_COUNTOF(endpoints); i++)
        if (bytes_ends_with(path, bytes_of(endpoints[i])))
            return "names an endpoint; leave out /chat/completions or /v1/messages, they are added";
    return NULL;
}

static const char *check_whole(struct bytes text)
{
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] <= 0x20 || text.p[i] == 0x7f)
            return "holds a space or a control character";
    if (bytes_find_byte(text, '?') != SIZE_MAX || bytes_find_byte(text, '#') != SIZE_MAX)
        return "has a query or a fragment; only scheme, host, port and path may stand there";
    return NULL;
}

static const char *parse_authority(struct bytes authority, struct arena *a, struct url *out)
{
    struct bytes host, port;
    uint64_t number = out->is_tls ? 443 : 80;
    if (bytes_find_byte(authority, '@') != SIZE_MAX)
        return "holds a user name or password; use api_key";
    if (!split_authority(authority, &host, &port))
        return "has no valid host";
    if (port.p != NULL && (!bytes_to_u64(port, &number) || number < 1 || number > UINT16_MAX))
        return "has a port that is not from 1 to 65535";
    bool is_usual = number == (out->is_tls ? 443 : 80);
    bool is_six = bytes_find_byte(host, ':') != SIZE_MAX;
    out->port = (uint16_t)number;
    out->host = lower(a, host);
    const char *shown = is_six ? arena_printf(a, "[%s]", out->host).p : out->host;
    out->authority = is_usual ? shown : arena_printf(a, "%s:%u", shown, (unsigned)number).p;
    return NULL;
}

const char *address_parse_url(struct bytes text, struct arena *a, struct url *out)
{
    *out = (struct url){.host = "", .path = "", .authority = ""};
    const char *why = check_whole(text);
    if (why != NULL)
        return why;
    if (bytes_eq_nocase(bytes_slice(text, 0, 8), BYTES("https://"))) {
        out->is_tls = true;
        text = bytes_slice(text, 8, text.n);
    } else if (bytes_eq_nocase(bytes_slice(text, 0, 7), BYTES("http://"))) {
        text = bytes_slice(text, 7, text.n);
    } else {
        return "does not begin with https:// or http://";
    }
    size_t slash = bytes_find_byte(text, '/');
    struct bytes path = slash == SIZE_MAX ? (struct bytes){0} : bytes_slice(text, slash, text.n);
    why = parse_authority(bytes_slice(text, 0, slash), a, out);
    while (path.n > 0 && path.p[path.n - 1] == '/')
        path.n--;
    if (why == NULL)
        why = check_path(path);
    out->path = arena_dup(a, path).p;
    return why;
}

const char *address_parse_listen(struct bytes text, bool *is_loopback)
{
    static const char form[] = "expected address:port, like 127.0.0.1:8080 or [::1]:8080";
    struct bytes host, port;
    uint64_t number;
    if (!split_authority(text, &host, &port) || port.p == NULL)
        return form;
    if (!bytes_to_u64(port, &number) || number > UINT16_MAX)
        return "the port is not from 0 to 65535";
    bool is_literal = is_v4(host) || bytes_find_byte(host, ':') != SIZE_MAX;
    if (!is_literal && !bytes_eq_nocase(host, BYTES("localhost")))
        return form;
    *is_loopback = address_is_loopback(host);
    return NULL;
}
