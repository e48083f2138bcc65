/* ringmain ledger: what was served, by whom, how fast and at what price. Reads the file; the gateway may run or not. */
#include "cmd/ledger.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/load.h"
#include "ledger/reader.h"
#include "ledger/summary.h"

#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAIL_DEFAULT = 20, FOLLOW_MS = 200, FOLLOW_IDS = 8192 };

struct asked {
    const char *config, *db, *since, *word, *id;
    const char *path; /* of the ledger */
    uint64_t n;
    bool follows, is_json;
};

static void usage(FILE *to)
{
    fputs("usage: ringmain ledger tail [-n N] [-f]      the newest requests, oldest first\n"
          "       ringmain ledger show ID              one request and all of its attempts\n"
          "       ringmain ledger sum [--since WHEN]   requests, spend and waste, by outcome and target\n"
          "       ringmain ledger reprice              what was recorded under other prices (--help tells more)\n"
          "       ringmain ledger reconcile FILE.csv   a provider's invoice beside it (--help tells more)\n\n"
          "  -c, --config FILE   the ledger of this configuration (default ringmain.yaml)\n"
          "  --db FILE           this ledger file\n"
          "  -n N                how many (20, at most 1000)\n"
          "  -f, --follow        go on with what comes\n"
          "  --since WHEN        30m, 24h, 7d, a day, or a time: 2026-11-30T07:00:00Z\n"
          "  --json              figures as JSON; tail: one object a line\n"
          "  -h, --help          this text\n",
          to);
}

/* ---- for people ---- */

static void put_usd(struct buf *out, int64_t nusd)
{
    if (nusd == NUSD_UNKNOWN) {
        buf_puts(out, "unknown");
        return;
    }
    buf_putc(out, '$');
    text_usd(out, nusd);
}

static void put_ms(struct buf *out, int64_t us)
{
    if (us < 0)
        buf_putc(out, '-');
    else
        buf_printf(out, "%lld.%lldms", (long long)(us / 1000), (long long)(us % 1000 / 100));
}

static const char *or_dash(const char *text)
{
    return text != NULL && *text != '\0' ? text : "-";
}

/* A client's text on a terminal: control characters would steer it. */
static void print(struct buf *out)
{
    for (size_t i = 0; i < out->n; i++)
        if (((unsigned char)out->p[i] < 0x20 && out->p[i] != '\n') || out->p[i] == 0x7f)
            out->p[i] = '?';
    fwrite(out->p, 1, out->n, stdout);
    fflush(stdout);
    buf_fini(out);
}

static void print_line(const struct request_record *r)
{
    struct buf b = {0};
    char id[TEXT_ID_BYTES], time[TEXT_TIME_BYTES];
    text_id(r->id, id);
    text_time(r->started_wall_ms, time);
    buf_printf(&b, "%s  %s  %3u %-16s %s  %s/%s  attempts=%u ttft=", time, id, r->status, outcome_word(r->outcome),
               or_dash(r->route), or_dash(r->provider), or_dash(r->model), r->n_started);
    put_ms(&b, r->ttft_us);
    buf_puts(&b, " total=");
    put_ms(&b, r->total_us);
    buf_puts(&b, " cost=");
    put_usd(&b, r->cost_nusd);
    buf_puts(&b, " waste=");
    put_usd(&b, r->waste_nusd);
    buf_putc(&b, '\n');
    print(&b);
}

static void put_attempt(struct buf *b, const struct attempt_record *a)
{
    buf_printf(b, "  %2u  %s/%s  %s%s", a->n, or_dash(a->provider), or_dash(a->model), outcome_word(a->outcome),
               a->in_stream ? " (inside the stream)" : "");
    if (a->status != 0)
        buf_printf(b, "  status %u", a->status);
    if (a->kind != ATTEMPT_CLIENT)
        buf_printf(b, "  %s", attempt_kind_word(a->kind));
    if (a->is_served)
        buf_puts(b, "  served");
    buf_putc(b, '\n');
    if (a->is_started) {
        buf_puts(b, "        start ");
        put_ms(b, a->start_us);
        buf_puts(b, a->connect_us < 0 ? "  connection reused" : "  connect ");
        if (a->connect_us >= 0)
            put_ms(b, a->connect_us);
        buf_puts(b, "  first byte ");
        put_ms(b, a->first_byte_us);
        buf_puts(b, "  first token ");
        put_ms(b, a->ttft_us);
        buf_puts(b, "  total ");
        put_ms(b, a->total_us);
        buf_printf(b, "\n        tokens in %lld, cached %lld, written %lld, out %lld (reasoning %lld), %s",
                   (long long)a->tokens.input, (long long)a->tokens.cache_read,
                   (long long)(a->tokens.cache_write_5m + a->tokens.cache_write_1h), (long long)a->tokens.output,
                   (long long)a->tokens.reasoning, tokens_from_word(a->tokens_from));
        buf_puts(b, "  cost ");
        put_usd(b, a->cost_nusd);
        buf_puts(b, "  waste ");
        put_usd(b, a->waste_nusd);
        buf_printf(b, "  price %s\n", or_dash(a->price_version));
    }
    if (a->retry_after_ms >= 0)
        buf_printf(b, "        retry after %lld ms\n", (long long)a->retry_after_ms);
    if (a->provider_request_id != NULL && a->provider_request_id[0] != '\0')
        buf_printf(b, "        provider's id %s\n", a->provider_request_id);
    if (a->decision != NULL && a->decision[0] != '\0')
        buf_printf(b, "        then: %s\n", a->decision);
}

static void print_trail(const struct request_record *r)
{
    struct buf b = {0};
    char id[TEXT_ID_BYTES], time[TEXT_TIME_BYTES];
    text_id(r->id, id);
    text_time(r->started_wall_ms, time);
    buf_printf(&b, "%s  %s\nroute %s  dialect %s%s  key %s\n", id, time, or_dash(r->route), or_dash(r->dialect),
               r->is_stream ? ", streaming" : "", or_dash(r->key));
    buf_printf(&b, "outcome %s  status %u  served by %s/%s\nfirst token ", outcome_word(r->outcome), r->status,
               or_dash(r->provider), or_dash(r->model));
    put_ms(&b, r->ttft_us);
    buf_puts(&b, "  total ");
    put_ms(&b, r->total_us);
    buf_puts(&b, "  in the gateway ");
    put_ms(&b, r->gateway_us);
    buf_puts(&b, "\ncost ");
    put_usd(&b, r->cost_nusd);
    buf_puts(&b, "  of which wasted ");
    put_usd(&b, r->waste_nusd);
    if (r->adjusted != NULL && *r->adjusted != '\0')
        buf_printf(&b, "\nadjusted %s", r->adjusted);
    if (r->trace_id != NULL && *r->trace_id != '\0')
        buf_printf(&b, "\ntrace %s", r->trace_id);
    buf_printf(&b, "\nattempts: %u started, %u in the trail\n", r->n_started, r->n_attempts);
    for (unsigned i = 0; i < r->n_attempts; i++)
        put_attempt(&b, &r->attempts[i]);
    print(&b);
}

static void print_summary(const struct summary *s)
{
    struct buf b = {0};
    int64_t milli = summary_waste_milli(s);
    buf_printf(&b, "requests   %lld, of which %lld needed more than one attempt\nattempts   %lld\nspend      ",
               (long long)s->n_requests, (long long)s->n_failed_over, (long long)s->n_attempts);
    put_usd(&b, s->cost_nusd);
    if (s->n_unpriced > 0)
        buf_printf(&b, " and %lld requests of unknown price", (long long)s->n_unpriced);
    buf_puts(&b, "\nwaste      ");
    put_usd(&b, s->waste_nusd);
    if (milli >= 0)
        buf_printf(&b, " (%lld.%03lld %%)", (long long)(milli / 1000), (long long)(milli % 1000));
    buf_printf(&b, "\nkeepalives %lld, ", (long long)s->n_keepalives);
    put_usd(&b, s->keepalive_nusd);
    if (s->n_keepalives_unpriced > 0)
        buf_printf(&b, " and %lld of unknown price", (long long)s->n_keepalives_unpriced);
    buf_putc(&b, '\n');
    counting_text(&s->counting, &b);
    estimates_text(&s->estimates, &b);
    if (s->hedging.n_started > 0)
        buf_putc(&b, '\n');
    hedging_text(&s->hedging, &b);
    budgets_text(&s->budgets, &b);
    if (s->n_runs_unclean > 0)
        buf_printf(&b, "\nunclean    %lld runs ended without saying so", (long long)s->n_runs_unclean);
    buf_puts(&b, "\n\nby outcome\n");
    for (size_t i = 0; i < s->n_outcomes; i++)
        buf_printf(&b, "  %-20s %lld\n", s->outcomes[i].word, (long long)s->outcomes[i].n);
    buf_puts(&b, "\nby target (attempts, served, failed, tokens out, cost, waste)\n");
    for (size_t i = 0; i < s->n_targets; i++) {
        const struct summary_target *t = &s->targets[i];
        buf_printf(&b, "  %s/%s  %lld  %lld  %lld  %lld  ", or_dash(t->provider), or_dash(t->model),
                   (long long)t->n_attempts, (long long)t->n_served, (long long)t->n_failed,
                   (long long)t->output_tokens);
        put_usd(&b, t->cost_nusd);
        buf_puts(&b, "  ");
        put_usd(&b, t->waste_nusd);
        if (t->n_unpriced > 0)
            buf_printf(&b, "  (%lld without a price)", (long long)t->n_unpriced);
        buf_putc(&b, '\n');
    }
    print(&b);
}

/* ---- the three words ---- */

static void show_one(const struct request_record *r, bool is_json, void (*text)(const struct request_record *r))
{
    if (!is_json) {
        text(r);
        return;
    }
    struct buf out = {0};
    record_json(r, &out);
    buf_putc(&out, '\n');
    fwrite(out.p, 1, out.n, stdout);
    fflush(stdout);
    buf_fini(&out);
}

static int failed(struct ledger_reader *r)
{
    fprintf(stderr, "ringmain ledger: %s\n", reader_error(r));
    return 1;
}

/* The newest ids of one look. */
struct look {
    uint64_t ids[FOLLOW_IDS];
    size_t n;
};

/* Prints what stands in `now` and not in `before`, in the order of ids. False = failed. */
static bool print_new(struct ledger_reader *r, const struct asked *a, const struct look *before, const struct look *now)
{
    size_t at = before->n;
    for (size_t i = now->n; i > 0; i--) {
        struct arena arena = {0};
        struct request_record rec;
        uint64_t id = now->ids[i - 1];
        while (at > 0 && before->ids[at - 1] < id)
            at--;
        if (at > 0 && before->ids[at - 1] == id)
            continue;
        bool ok = reader_record(r, id, &arena, &rec) == ERR_OK;
        if (ok)
            show_one(&rec, a->is_json, print_line);
        arena_fini(&arena);
        if (!ok)
            return false;
    }
    return true;
}

static int follow(struct ledger_reader *r, const struct asked *a, struct look *before)
{
    static struct look now; /* too large for the stack */
    while (!ferror(stdout)) {
        poll(NULL, 0, FOLLOW_MS);
        if (reader_ids(r, now.ids, FOLLOW_IDS, &now.n) != ERR_OK || !print_new(r, a, before, &now))
            return failed(r);
        memcpy(before, &now, sizeof now);
    }
    return 1;
}

static int tail(struct ledger_reader *r, const struct asked *a)
{
    static struct look seen;
    struct arena arena = {0};
    unsigned n = 0;
    struct request_record *v = ARENA_ARRAY(&arena, struct request_record, a->n > 0 ? a->n : 1);
    if (a->follows && reader_ids(r, seen.ids, FOLLOW_IDS, &seen.n) != ERR_OK)
        return failed(r);
    uint64_t before = a->follows && seen.n > 0 ? seen.ids[0] + 1 : 0;
    int code = reader_list(r, (unsigned)a->n, 0, before, &arena, v, &n) == ERR_OK ? 0 : failed(r);
    for (unsigned i = n; i > 0; i--)
        show_one(&v[i - 1], a->is_json, print_line);
    arena_fini(&arena);
    return code == 0 && a->follows ? follow(r, a, &seen) : code;
}

static int show(struct ledger_reader *r, const struct asked *a)
{
    struct arena arena = {0};
    struct request_record rec;
    uint64_t id;
    enum err e = ERR_NOT_FOUND;
    if (text_id_parse(bytes_of(a->id), &id))
        e = reader_record(r, id, &arena, &rec);
    if (e == ERR_OK)
        show_one(&rec, a->is_json, print_trail);
    else
        fprintf(stderr, "ringmain ledger: %s: %s\n", a->id,
                e == ERR_NOT_FOUND ? "no such request on the ledger" : reader_error(r));
    arena_fini(&arena);
    return e == ERR_OK ? 0 : 1;
}

bool ledger_since(struct ledger_reader *r, const char *text, int64_t *ms)
{
    static const struct {
        char unit;
        int64_t ms;
    } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}, {'w', 604800000}};
    struct bytes t = bytes_of(text);
    char midnight[] = "0000-00-00T00:00:00Z";
    uint64_t n;
    if (t.n == 10) /* a day: from its beginning */
        memcpy(midnight, t.p, 10);
    if (text_time_parse(t, ms) || (t.n == 10 && text_time_parse(bytes_of(midnight), ms)))
        return true;
    if (t.n < 2 || !bytes_to_u64(bytes_slice(t, 0, t.n - 1), &n) || n > 1000000)
        return false;
    for (size_t i = 0; i < RM_COUNTOF(units); i++)
        if (t.p[t.n - 1] == units[i].unit) {
            *ms = reader_now_ms(r) - (int64_t)n * units[i].ms;
            return true;
        }
    return false;
}

static int sum(struct ledger_reader *r, const struct asked *a)
{
    int64_t since_ms = 0;
    if (a->since != NULL && !ledger_since(r, a->since, &since_ms)) {
        fprintf(stderr, "ringmain ledger: --since takes 30m, 24h, 7d or a time like 2026-11-30T07:00:00Z, not '%s'\n",
                a->since);
        return 2;
    }
    struct arena arena = {0};
    struct summary s;
    int code = summary_read(r, since_ms, &arena, &s) == ERR_OK ? 0 : failed(r);
    if (code == 0)
        ledger_estimates(a->path, &arena, &s.estimates);
    if (code == 0 && a->is_json) {
        struct buf out = {0};
        summary_json(&s, &out);
        puts(buf_cstr(&out));
        buf_fini(&out);
    } else if (code == 0) {
        print_summary(&s);
    }
    arena_fini(&arena);
    return code;
}

/* ---- asking ---- */

static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                        {"db", required_argument, NULL, 'd'},
                                        {"follow", no_argument, NULL, 'f'},
                                        {"since", required_argument, NULL, 's'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static bool set_option(struct asked *a, int o, const char *value)
{
    switch (o) {
    case 'c':
        a->config = value;
        return true;
    case 'd':
        a->db = value;
        return true;
    case 's':
        a->since = value;
        return true;
    case 'f':
        return a->follows = true;
    case 'j':
        return a->is_json = true;
    case 'n':
        return bytes_to_u64(bytes_of(value), &a->n) && a->n <= READER_LIST_MAX;
    default:
        return false;
    }
}

/* False = usage. */
static bool read_words(struct asked *a, int argc, char **argv)
{
    int n = argc - optind;
    if (n < 1)
        return false;
    a->word = argv[optind];
    bool is_show = strcmp(a->word, "show") == 0;
    if (!is_show && strcmp(a->word, "tail") != 0 && strcmp(a->word, "sum") != 0)
        return false;
    if (n != (is_show ? 2 : 1))
        return false;
    a->id = is_show ? argv[optind + 1] : NULL;
    return true;
}

static int run(struct asked *a, const char *path)
{
    a->path = path;
    struct ledger_reader *r = NULL;
    char message[400] = "";
    if (ledger_reader_open(path, &r, message, sizeof message) != ERR_OK) {
        fprintf(stderr, "ringmain ledger: %s\n", message);
        return 1;
    }
    int code = strcmp(a->word, "tail") == 0 ? tail(r, a) : strcmp(a->word, "show") == 0 ? show(r, a) : sum(r, a);
    ledger_reader_close(r);
    return code;
}

static int run_of_config(struct asked *a)
{
    struct config_faults faults = {0};
    struct config *config = NULL;
    int code = 1;
    if (config_load_file(a->config, &faults, &config) != ERR_OK) {
        struct buf text = {0};
        config_faults_text(&faults, &text);
        fputs(buf_cstr(&text), stderr);
        buf_fini(&text);
    } else if (*config->ledger == '\0') {
        fprintf(stderr, "ringmain ledger: the ledger is off in %s\n", a->config);
    } else {
        code = run(a, config->ledger);
    }
    config_faults_fini(&faults);
    if (config != NULL)
        config_unref(config);
    return code;
}

int cmd_ledger(int argc, char **argv)
{
    struct asked a = {.config = "ringmain.yaml", .n = TAIL_DEFAULT};
    int o;
    if (argc > 1 && strcmp(argv[1], "reprice") == 0)
        return ledger_reprice(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "reconcile") == 0)
        return ledger_reconcile(argc - 1, argv + 1);
    while ((o = getopt_long(argc, argv, "c:n:fh", options, NULL)) != -1) {
        if (o == 'h') {
            usage(stdout);
            return 0;
        }
        if (!set_option(&a, o, optarg)) {
            usage(stderr);
            return 2;
        }
    }
    if (!read_words(&a, argc, argv)) {
        usage(stderr);
        return 2;
    }
    return a.db != NULL ? run(&a, a.db) : run_of_config(&a);
}
