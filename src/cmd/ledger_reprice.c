/* ringmain ledger reprice: the difference is always printed; it is written only when that is asked for, after it was
 * printed. */
#include "cmd/ledger.h"
#include "codec/json_write.h"
#include "ledger/reprice.h"
#include "price/show.h"

#include <getopt.h>
#include <stdio.h>

struct asked {
    const char *config, *db, *book, *since, *until, *provider;
    bool writes, is_json;
};

static void usage(FILE *to)
{
    fputs(
        "usage: ringmain ledger reprice [--since WHEN] [--until WHEN] [--prices BOOK] [--write]\n\n"
        "Computes what was recorded again, each attempt with the price of its own day, and prints the difference. The\n"
        "tokens stay; what was charged before is kept in the table `repriced`. Attempts of unknown price stay as they\n"
        "are.\n\n"
        "  -c, --config FILE   its ledger and its prices (default ringmain.yaml)\n"
        "  --db FILE           this ledger file; without --config only the price books count\n"
        "  --prices BOOK       a price book, in the place of `price_file`\n"
        "  --since, --until    30m, 24h, 7d, or a time: 2026-11-30T07:00:00Z\n"
        "  --provider NAME     only attempts at it\n"
        "  --write             write it, after the difference was printed\n"
        "  --json              one JSON object; money is whole nano-dollars\n"
        "  -h, --help          this text\n",
        to);
}

/* ---- the difference ---- */

static const char *or_none(const char *version)
{
    return *version != '\0' ? version : "(no price)";
}

static void print_text(const struct reprice_report *r)
{
    struct buf b = {0};
    for (size_t i = 0; i < r->n; i++) {
        const struct reprice_group *g = &r->groups[i];
        buf_printf(&b, "%s/%s  %s -> %s  %lld attempts, %lld change  ", g->provider, g->model, or_none(g->was_version),
                   g->n_no_price > 0 ? "stays" : or_none(g->now_version), (long long)g->n_attempts,
                   (long long)g->n_changed);
        show_usd(&b, g->was_nusd, 6);
        buf_puts(&b, " -> ");
        show_usd(&b, g->now_nusd, 6);
        buf_puts(&b, " (");
        show_change(&b, g->now_nusd - g->was_nusd, 6);
        buf_putc(&b, ')');
        if (g->n_was_unknown > 0)
            buf_printf(&b, ", %lld had no known cost", (long long)g->n_was_unknown);
        buf_putc(&b, '\n');
    }
    buf_printf(&b, "%lld requests and keepalives, %lld billed attempts, %lld change: ", (long long)r->n_requests,
               (long long)r->n_attempts, (long long)r->n_changed);
    show_usd(&b, r->was_nusd, 6);
    buf_puts(&b, " -> ");
    show_usd(&b, r->now_nusd, 6);
    buf_puts(&b, " (");
    show_change(&b, r->now_nusd - r->was_nusd, 6);
    buf_puts(&b, ")\n");
    fwrite(b.p, 1, b.n, stdout);
    fflush(stdout);
    buf_fini(&b);
}

static void group_json(struct json_writer *w, const struct reprice_group *g)
{
    jw_object(w);
    jw_named_cstr(w, "provider", g->provider);
    jw_named_cstr(w, "model", g->model);
    jw_named_text(w, "was_version", g->was_version);
    jw_named_text(w, "now_version", g->now_version);
    jw_named_int(w, "attempts", g->n_attempts);
    jw_named_int(w, "changed", g->n_changed);
    jw_named_int(w, "was_nusd", g->was_nusd);
    jw_named_int(w, "now_nusd", g->now_nusd);
    jw_named_int(w, "was_unknown", g->n_was_unknown);
    jw_named_int(w, "no_price", g->n_no_price);
    jw_end(w);
}

static void print_json(const struct reprice_report *r, int64_t n_written)
{
    struct buf b = {0};
    struct json_writer w;
    jw_init(&w, &b);
    jw_object(&w);
    jw_named_int(&w, "requests", r->n_requests);
    jw_named_int(&w, "attempts", r->n_attempts);
    jw_named_int(&w, "changed", r->n_changed);
    jw_named_int(&w, "was_nusd", r->was_nusd);
    jw_named_int(&w, "now_nusd", r->now_nusd);
    jw_named_int(&w, "written", n_written);
    jw_key(&w, "targets");
    jw_array(&w);
    for (size_t i = 0; i < r->n; i++)
        group_json(&w, &r->groups[i]);
    jw_end(&w);
    jw_end(&w);
    buf_putc(&b, '\n');
    fwrite(b.p, 1, b.n, stdout);
    buf_fini(&b);
}

/* ---- doing it ---- */

static const struct price *find(const struct attempt_record *a, int64_t wall_ms, bool *is_standin, void *arg)
{
    return prices_find(arg, a->provider, a->model, a->service, wall_ms, is_standin);
}

static int reprice(const struct asked *a, const struct ledger_stage *s, const struct reprice_ask *ask)
{
    struct arena arena = {0};
    struct reprice_report *report = ARENA_NEW(&arena, struct reprice_report);
    char message[400] = "";
    int64_t n_written = 0;
    int code = 0;
    if (reprice_read(s->reader, ask, &arena, report) != ERR_OK) {
        fprintf(stderr, "ringmain ledger: %s\n", reader_error(s->reader));
        arena_fini(&arena);
        return 1;
    }
    if (!a->is_json)
        print_text(report);
    if (a->writes && report->n_changed > 0 &&
        reprice_write(s->reader, s->path, ask, &n_written, message, sizeof message) != ERR_OK) {
        fprintf(stderr, "ringmain ledger: %s; %lld attempts were written, run it again for the others\n", message,
                (long long)n_written);
        code = 1;
    }
    if (a->is_json)
        print_json(report, n_written);
    else if (a->writes)
        printf("%lld attempts written\n", (long long)n_written);
    else if (report->n_changed > 0)
        puts("nothing was written; --write writes it");
    arena_fini(&arena);
    return code;
}

static bool when(const struct ledger_stage *s, const char *option, const char *text, int64_t *ms)
{
    if (text == NULL || ledger_since(s->reader, text, ms))
        return true;
    fprintf(stderr, "ringmain ledger: --%s takes 30m, 24h, 7d or a time like 2026-11-30T07:00:00Z, not '%s'\n", option,
            text);
    return false;
}

static const struct option options[] = {
    {"config", required_argument, NULL, 'c'}, {"db", required_argument, NULL, 'd'},
    {"prices", required_argument, NULL, 'b'}, {"since", required_argument, NULL, 's'},
    {"until", required_argument, NULL, 'u'},  {"provider", required_argument, NULL, 'p'},
    {"write", no_argument, NULL, 'w'},        {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};

static bool set_option(struct asked *a, int o, const char *value)
{
    switch (o) {
    case 'c':
        a->config = value;
        return true;
    case 'd':
        a->db = value;
        return true;
    case 'b':
        a->book = value;
        return true;
    case 's':
        a->since = value;
        return true;
    case 'u':
        a->until = value;
        return true;
    case 'p':
        a->provider = value;
        return true;
    case 'w':
        return a->writes = true;
    case 'j':
        return a->is_json = true;
    default:
        return false;
    }
}

int ledger_reprice(int argc, char **argv)
{
    struct asked a = {0};
    struct ledger_stage s;
    int o, code = 2;
    while ((o = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        if (o == 'h') {
            usage(stdout);
            return 0;
        }
        if (!set_option(&a, o, optarg)) {
            usage(stderr);
            return 2;
        }
    }
    if (optind != argc) {
        usage(stderr);
        return 2;
    }
    if (a.config == NULL && a.db == NULL)
        a.config = "ringmain.yaml";
    if (!ledger_stage_open(a.config, a.db, a.book, &s))
        return 1;
    struct reprice_ask ask = {.provider = a.provider, .find = find, .arg = s.prices};
    if (when(&s, "since", a.since, &ask.since_ms) && when(&s, "until", a.until, &ask.until_ms))
        code = reprice(&a, &s, &ask);
    ledger_stage_close(&s);
    return code;
}
