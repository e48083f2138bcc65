/* A browser on this machine can be made to send requests here by any page it shows. Three things keep such a page out
 * where there is no secret: only GET and HEAD, no CORS header (so the answer cannot be read), and a Host that must be a
 * loopback name (so a name that was rebound to 127.0.0.1 does not count as this origin). */
#include "panel/admin.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "base/text.h"
#include "codec/json_write.h"
#include "ledger/ledger.h"

#include <stdio.h>

enum { LIST_DEFAULT = 50, LIST_MAX = 1000 };

struct admin {
    const struct panel_options *options;
    struct ledger_reader *reader; /* opened at the first question */
};

struct admin *admin_new(const struct panel_options *o)
{
    struct admin *a = mem_zalloc(sizeof *a);
    a->options = o;
    return a;
}

void admin_free(struct admin *a)
{
    ledger_reader_close(a->reader);
    mem_free(a);
}

bool admin_host_is_loopback(struct bytes host)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < RM_COUNTOF(names); i++) {
        struct bytes name = bytes_of(names[i]);
        if (!bytes_eq_nocase(bytes_slice(host, 0, name.n), name))
            continue;
        struct bytes rest = bytes_slice(host, name.n, host.n);
        uint64_t port;
        if (rest.n == 0 || (rest.p[0] == ':' && bytes_to_u64(bytes_slice(rest, 1, rest.n), &port) && port <= 65535))
            return true;
    }
    return false;
}

static bool knows_secret(const struct admin *a, const struct head *head)
{
    struct bytes line = fields_get(&head->fields, "authorization");
    if (fields_count(&head->fields, "authorization") != 1 ||
        !bytes_eq_nocase(bytes_slice(line, 0, 7), BYTES("Bearer ")))
        return false;
    struct bytes secret = bytes_trim(bytes_slice(line, 7, line.n));
    unsigned char sum[SHA256_BYTES];
    sha256(secret, sum);
    return bytes_eq_fixed_time(bytes_from(sum, sizeof sum),
                               bytes_from(a->options->secret_sha256, sizeof a->options->secret_sha256));
}

unsigned admin_check(const struct admin *a, const struct head *head)
{
    if (a->options->has_secret) {
        if (!knows_secret(a, head))
            return 401;
    } else if (!admin_host_is_loopback(head->host)) {
        return 403;
    }
    return bytes_is(head->method, "GET") || bytes_is(head->method, "HEAD") ? 0 : 405;
}

static void put_error(struct admin_answer *out, unsigned status, const char *type, const char *message)
{
    struct json_writer w;
    out->status = status;
    jw_init(&w, &out->body);
    jw_object(&w);
    jw_key(&w, "error");
    jw_object(&w);
    jw_key(&w, "message");
    jw_cstr(&w, message);
    jw_key(&w, "type");
    jw_cstr(&w, type);
    jw_end(&w);
    jw_end(&w);
}

static void init_answer(struct admin_answer *out)
{
    *out = (struct admin_answer){.status = 200, .content_type = "application/json", .more = ""};
}

void admin_refusal(unsigned status, const char *why, struct admin_answer *out)
{
    init_answer(out);
    if (status == 401) {
        out->more = "WWW-Authenticate: Bearer\r\n";
        put_error(out, status, "authentication_error", "the admin secret is needed: Authorization: Bearer SECRET");
    } else if (status == 403) {
        put_error(out, status, "forbidden", "without an admin secret the Host must be 127.0.0.1, localhost or [::1]");
    } else if (status == 405) {
        out->more = "Allow: GET, HEAD\r\n";
        put_error(out, status, "method_not_allowed", "only GET and HEAD are answered here");
    } else {
        put_error(out, status, "invalid_request", why != NULL ? why : head_reason(status));
    }
}

/* The value of a query parameter; p NULL = not there. */
static struct bytes parameter(struct bytes query, const char *name)
{
    while (query.n > 0) {
        struct bytes value = bytes_cut(&query, '&');
        struct bytes key = bytes_cut(&value, '=');
        if (bytes_is(key, name))
            return value.p != NULL ? value : BYTES("");
    }
    return (struct bytes){0};
}

/* NULL after an error answer. */
static struct ledger_reader *reader(struct admin *a, struct admin_answer *out)
{
    const char *path = a->options->ledger_path;
    char message[320] = "";
    if (path == NULL || *path == '\0') {
        put_error(out, 404, "not_found", "there is no ledger: `ledger` is off in the configuration");
        return NULL;
    }
    if (a->reader == NULL && ledger_reader_open(path, &a->reader, message, sizeof message) != ERR_OK) {
        put_error(out, 503, "ledger_unavailable", message);
        return NULL;
    }
    return a->reader;
}

static void answer_list(struct admin *a, struct bytes query, struct admin_answer *out)
{
    struct bytes n_text = parameter(query, "n"), before_text = parameter(query, "before");
    uint64_t n = LIST_DEFAULT, before = 0;
    if (n_text.p != NULL && (!bytes_to_u64(n_text, &n) || n == 0 || n > LIST_MAX)) {
        put_error(out, 400, "invalid_request", "n is a whole number from 1 to 1000");
        return;
    }
    if (before_text.p != NULL && !text_id_parse(before_text, &before)) {
        put_error(out, 400, "invalid_request", "before is a request id (req_…)");
        return;
    }
    struct ledger_reader *r = reader(a, out);
    if (r == NULL)
        return;
    if (ledger_list_json(r, (unsigned)n, before, &out->body) != ERR_OK) {
        buf_clear(&out->body);
        put_error(out, 503, "ledger_unavailable", "the ledger cannot be read now");
    }
}

static void answer_one(struct admin *a, struct bytes id_text, struct admin_answer *out)
{
    uint64_t id;
    if (!text_id_parse(id_text, &id)) {
        put_error(out, 404, "not_found", "that is no request id (req_…)");
        return;
    }
    struct ledger_reader *r = reader(a, out);
    if (r == NULL)
        return;
    enum err e = ledger_read_json(r, id, &out->body);
    if (e == ERR_OK)
        return;
    buf_clear(&out->body);
    if (e == ERR_NOT_FOUND)
        put_error(out, 404, "not_found", "no such request on the ledger");
    else
        put_error(out, 503, "ledger_unavailable", "the ledger cannot be read now");
}

void admin_answer(struct admin *a, const struct head *head, struct admin_answer *out)
{
    static const char one[] = "/api/requests/";
    struct bytes path = head->path;
    init_answer(out);
    if (bytes_is(path, "/api/requests")) {
        answer_list(a, head->query, out);
    } else if (bytes_starts_with(path, BYTES("/api/requests/"))) {
        answer_one(a, bytes_slice(path, sizeof one - 1, path.n), out);
    } else if (bytes_is(path, "/api/health") && a->options->health != NULL) {
        a->options->health(&out->body, a->options->arg);
    } else if (bytes_is(path, "/metrics") && a->options->metrics != NULL) {
        out->content_type = "text/plain; version=0.0.4; charset=utf-8";
        a->options->metrics(&out->body, a->options->arg);
    } else if (bytes_is(path, "/") || bytes_starts_with(path, BYTES("/ui"))) {
        put_error(out, 404, "not_found", "there is no page here; /api/requests, /api/health and /metrics answer");
    } else {
        put_error(out, 404, "not_found", "no such path");
    }
}
