/* ringmain ledger reconcile: a provider's invoice beside what was recorded, by day and model. */
#include "base/text.h"
#include "cmd/ledger.h"
#include "cmd/load.h"
#include "codec/json_write.h"
#include "ledger/daily.h"
#include "price/show.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>

enum { INVOICE_BYTES_MAX = 256 << 20, TOLERANCE_PPM = 1000, INPUT_ASK = 0, INPUT_WHOLE, INPUT_UNCACHED };

struct asked {
    const char *config, *db, *book, *provider, *file;
    const char *columns[INVOICE_N_COLUMNS];
    int input;
    uint32_t tolerance_ppm;
    bool is_json;
};

static void usage(FILE *to)
{
    fputs(
        "usage: ringmain ledger reconcile INVOICE.csv --provider NAME [options]\n\n"
        "Compares a provider's usage export with what was recorded, by day (UTC) and model, and says where a "
        "difference\n"
        "lies: in the tokens, in the rates, or in calls that one side does not have.\n\n"
        "  --provider NAME       whose invoice it is, as in the configuration\n"
        "  -c, --config FILE     its ledger and its prices (default ringmain.yaml)\n"
        "  --db FILE             this ledger file; without --config only the price books count\n"
        "  --prices BOOK         a price book, in the place of `price_file`\n"
        "  --column WORD=NAME    which column of the file is the day, model, input, read, write_5m, write_1h, output,\n"
        "                        requests or cost, where its name does not tell\n"
        "  --input whole|uncached  whether its input holds cached input too (default: by the column's name, else by\n"
        "                        the provider's dialect)\n"
        "  --tolerance R         a difference that is let pass (default 0.1%; half a cent always)\n"
        "  --json                one JSON object; money is whole nano-dollars\n"
        "  -h, --help            this text\n\n"
        "Exit code 0: all rows agree; 1: some do not, or it failed.\n",
        to);
}

/* ---- for people ---- */

static void day_text(int64_t day, char out[11])
{
    char whole[TEXT_TIME_BYTES];
    text_time(day * 86400000, whole);
    memcpy(out, whole, 10);
    out[10] = '\0';
}

static void put_tokens(struct buf *b, const char *word, int64_t ours, int64_t billed)
{
    if (billed >= 0 && billed != ours)
        buf_printf(b, " %s %+lld,", word, (long long)(billed - ours));
}

static void put_row(struct buf *b, const struct reconcile_row *r)
{
    char day[11];
    day_text(r->day, day);
    buf_printf(b, "%s  %.*s  ours ", day, (int)r->model.n, r->model.p);
    show_usd(b, r->ours.cost_nusd, 4);
    buf_puts(b, "  invoice ");
    if (r->billed_nusd == NUSD_UNKNOWN)
        buf_putc(b, '-');
    else
        show_usd(b, r->billed_nusd, 4);
    buf_printf(b, "  %s", reconcile_word(r->verdict));
    if (r->verdict == RECONCILE_AGREES) {
        buf_putc(b, '\n');
        return;
    }
    if (r->difference_nusd != NUSD_UNKNOWN) {
        buf_puts(b, ": ");
        show_change(b, r->difference_nusd, 4);
    }
    if (r->rates_nusd != NUSD_UNKNOWN) {
        buf_puts(b, " (tokens ");
        show_change(b, r->tokens_nusd, 4);
        buf_puts(b, ", rates ");
        show_change(b, r->rates_nusd, 4);
        buf_putc(b, ')');
    }
    buf_putc(b, '\n');
}

static void put_details(struct buf *b, const struct reconcile_row *r)
{
    size_t from = b->n;
    buf_puts(b, "            tokens:");
    size_t head = b->n;
    if (r->has_ours && r->has_invoice) {
        put_tokens(b, "in", r->ours.usage.input, r->billed.input);
        put_tokens(b, "read", r->ours.usage.cache_read, r->billed.cache_read);
        put_tokens(b, "written 5m", r->ours.usage.cache_write_5m, r->billed.cache_write_5m);
        put_tokens(b, "written 1h", r->ours.usage.cache_write_1h, r->billed.cache_write_1h);
        put_tokens(b, "out", r->ours.usage.output, r->billed.output);
    }
    if (b->n == head)
        b->n = from;
    else
        b->p[b->n - 1] = '\n';
    if (r->ours.n_estimated > 0) {
        buf_printf(b, "            %lld of %lld attempts are estimates, ", (long long)r->ours.n_estimated,
                   (long long)r->ours.n_attempts);
        show_usd(b, r->ours.estimated_nusd, 4);
        buf_puts(b, " of ours\n");
    }
    if (r->ours.n_classed > 0)
        buf_printf(b, "            %lld of %lld attempts were in a class of service of their own (%s)%s\n",
                   (long long)r->ours.n_classed, (long long)r->ours.n_attempts, r->ours.service,
                   r->ours.is_mixed ? ": sums of several classes do not tell their rates" : "");
    if (r->ours.n_unpriced > 0)
        buf_printf(b, "            %lld attempts had no known price: ledger reprice\n", (long long)r->ours.n_unpriced);
}

static void print_text(const struct reconcile *r, const struct invoice *in)
{
    struct buf b = {0};
    bool one = in->n_sums == 1;
    for (size_t i = 0; i < r->n; i++) {
        put_row(&b, &r->rows[i]);
        if (r->rows[i].verdict != RECONCILE_AGREES)
            put_details(&b, &r->rows[i]);
    }
    buf_puts(&b, "ours ");
    show_usd(&b, r->ours_nusd, 4);
    buf_puts(&b, ", invoice ");
    show_usd(&b, r->billed_nusd, 4);
    buf_puts(&b, ", difference ");
    show_change(&b, r->billed_nusd - r->ours_nusd, 4);
    buf_putc(&b, '\n');
    if (in->n_sums > 0)
        buf_printf(&b, "%zu line%s of the invoice name%s no day (a total?) and %s left out\n", in->n_sums,
                   one ? "" : "s", one ? "s" : "", one ? "is" : "are");
    for (size_t i = 0; i < b.n; i++) /* a foreign text on a terminal */
        if (((unsigned char)b.p[i] < 0x20 && b.p[i] != '\n') || b.p[i] == 0x7f)
            b.p[i] = '?';
    fwrite(b.p, 1, b.n, stdout);
    buf_fini(&b);
}

/* ---- for programs ---- */

static void money(struct json_writer *w, const char *name, int64_t v)
{
    jw_named_known(w, name, v, v != NUSD_UNKNOWN);
}

static void tokens_json(struct json_writer *w, const char *name, const struct usage *u, bool is_there)
{
    jw_key(w, name);
    if (!is_there) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_named_known(w, "input", u->input, u->input >= 0);
    jw_named_known(w, "cache_read", u->cache_read, u->cache_read >= 0);
    jw_named_known(w, "cache_write_5m", u->cache_write_5m, u->cache_write_5m >= 0);
    jw_named_known(w, "cache_write_1h", u->cache_write_1h, u->cache_write_1h >= 0);
    jw_named_known(w, "output", u->output, u->output >= 0);
    jw_end(w);
}

static void row_json(struct json_writer *w, const struct reconcile_row *r)
{
    char day[11];
    day_text(r->day, day);
    jw_object(w);
    jw_named_cstr(w, "day", day);
    jw_named_string(w, "model", r->model);
    jw_named_cstr(w, "verdict", reconcile_word(r->verdict));
    money(w, "ours_nusd", r->has_ours ? r->ours.cost_nusd : NUSD_UNKNOWN);
    money(w, "invoice_nusd", r->billed_nusd);
    money(w, "difference_nusd", r->difference_nusd);
    money(w, "of_tokens_nusd", r->tokens_nusd);
    money(w, "of_rates_nusd", r->rates_nusd);
    tokens_json(w, "ours_tokens", &r->ours.usage, r->has_ours);
    tokens_json(w, "invoice_tokens", &r->billed, r->has_invoice);
    jw_named_int(w, "attempts", r->ours.n_attempts);
    jw_named_int(w, "estimated", r->ours.n_estimated);
    jw_named_int(w, "estimated_nusd", r->ours.estimated_nusd);
    jw_named_int(w, "unpriced", r->ours.n_unpriced);
    jw_named_int(w, "in_classes", r->ours.n_classed);
    jw_key(w, "service");
    if (r->ours.n_classed > 0 && !r->ours.is_mixed)
        jw_cstr(w, r->ours.service);
    else
        jw_null(w);
    jw_end(w);
}

static void print_json(const struct reconcile *r, const struct invoice *in)
{
    struct buf b = {0};
    struct json_writer w;
    jw_init(&w, &b);
    jw_object(&w);
    money(&w, "ours_nusd", r->ours_nusd);
    money(&w, "invoice_nusd", r->billed_nusd);
    jw_named_int(&w, "left_out", (int64_t)in->n_sums);
    jw_key(&w, "rows");
    jw_array(&w);
    for (size_t i = 0; i < r->n; i++)
        row_json(&w, &r->rows[i]);
    jw_end(&w);
    jw_end(&w);
    buf_putc(&b, '\n');
    fwrite(b.p, 1, b.n, stdout);
    buf_fini(&b);
}

/* ---- comparing ---- */

struct finder {
    struct prices *prices;
    const char *provider;
};

static const struct price *find(struct bytes model, const char *service, int64_t wall_ms, void *arg)
{
    const struct finder *f = arg;
    char name[512];
    if (model.n >= sizeof name)
        return NULL;
    memcpy(name, model.p, model.n);
    name[model.n] = '\0';
    bool is_standin;
    return prices_find(f->prices, f->provider, name, service, wall_ms, &is_standin);
}

/* OpenAI counts cached input as input, Anthropic besides it. */
static bool is_input_whole(const struct asked *a, const struct ledger_stage *s, const struct invoice *in)
{
    const struct provider_conf *p = s->config != NULL ? config_provider(s->config, bytes_of(a->provider)) : NULL;
    if (a->input != INPUT_ASK)
        return a->input == INPUT_WHOLE;
    return !in->is_input_named && (p == NULL || strcmp(p->dialect, "anthropic") != 0);
}

static int compare(const struct asked *a, const struct ledger_stage *s, const struct invoice *in, struct arena *arena)
{
    struct day_use *ours;
    struct reconcile result;
    int64_t first = in->rows[0].day, last = first;
    for (size_t i = 1; i < in->n; i++) {
        first = in->rows[i].day < first ? in->rows[i].day : first;
        last = in->rows[i].day > last ? in->rows[i].day : last;
    }
    struct finder finder = {s->prices, a->provider};
    struct reconcile_ask ask = {.invoice = in, .tolerance_ppm = a->tolerance_ppm, .find = find, .arg = &finder};
    if (daily_read(s->reader, a->provider, first, last, arena, &ours, &ask.n_ours) != ERR_OK) {
        fprintf(stderr, "ringmain ledger: %s\n", reader_error(s->reader));
        return 1;
    }
    ask.ours = ours;
    ask.is_input_whole = is_input_whole(a, s, in);
    reconcile(&ask, arena, &result);
    if (a->is_json)
        print_json(&result, in);
    else
        print_text(&result, in);
    for (size_t i = 0; i < result.n; i++)
        if (result.rows[i].verdict != RECONCILE_AGREES)
            return 1;
    return 0;
}

static int run(const struct asked *a, const struct ledger_stage *s)
{
    struct buf text = {.max = INVOICE_BYTES_MAX}, why = {0};
    struct arena arena = {0};
    struct invoice in;
    int code = 1;
    if (s->config != NULL && config_provider(s->config, bytes_of(a->provider)) == NULL)
        fprintf(stderr, "ringmain ledger: there is no provider '%s' in %s\n", a->provider, a->config);
    else if (!load_bytes(a->file, &text))
        fprintf(stderr, "ringmain ledger: %s: %s\n", a->file, strerror(errno));
    else if (text.n == text.max)
        fprintf(stderr, "ringmain ledger: %s: larger than %d MB\n", a->file, INVOICE_BYTES_MAX >> 20);
    else if (invoice_read(buf_bytes(&text), a->columns, &arena, &in, &why) != ERR_OK)
        fprintf(stderr, "ringmain ledger: %s: %s\n", a->file, buf_cstr(&why));
    else if (in.n == 0)
        fprintf(stderr, "ringmain ledger: %s: has no rows\n", a->file);
    else
        code = compare(a, s, &in, &arena);
    arena_fini(&arena);
    buf_fini(&text);
    buf_fini(&why);
    return code;
}

/* ---- asking ---- */

static bool set_column(struct asked *a, const char *value)
{
    const char *eq = strchr(value, '=');
    for (int c = 0; eq != NULL && c < INVOICE_N_COLUMNS; c++)
        if (bytes_is(bytes_from(value, (size_t)(eq - value)), invoice_word((enum invoice_column)c))) {
            a->columns[c] = eq + 1;
            return true;
        }
    fprintf(stderr,
            "ringmain ledger: --column is '%s'; expected one of day, model, input, read, write_5m, write_1h, output, "
            "requests, cost, with =NAME\n",
            value);
    return false;
}

static bool set_input(struct asked *a, const char *value)
{
    a->input = strcmp(value, "whole") == 0 ? INPUT_WHOLE : strcmp(value, "uncached") == 0 ? INPUT_UNCACHED : INPUT_ASK;
    if (a->input == INPUT_ASK)
        fprintf(stderr, "ringmain ledger: --input is '%s'; expected whole or uncached\n", value);
    return a->input != INPUT_ASK;
}

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
    case 'p':
        a->provider = value;
        return true;
    case 'k':
        return set_column(a, value);
    case 'i':
        return set_input(a, value);
    case 't':
        if (show_ppm_parse(bytes_of(value), &a->tolerance_ppm))
            return true;
        fprintf(stderr, "ringmain ledger: --tolerance is '%s'; expected a share such as 0.1%%\n", value);
        return false;
    case 'j':
        return a->is_json = true;
    default:
        usage(stderr);
        return false;
    }
}

static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                        {"db", required_argument, NULL, 'd'},
                                        {"prices", required_argument, NULL, 'b'},
                                        {"provider", required_argument, NULL, 'p'},
                                        {"column", required_argument, NULL, 'k'},
                                        {"input", required_argument, NULL, 'i'},
                                        {"tolerance", required_argument, NULL, 't'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

int ledger_reconcile(int argc, char **argv)
{
    struct asked a = {.tolerance_ppm = TOLERANCE_PPM};
    struct ledger_stage s;
    int o;
    while ((o = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        if (o == 'h') {
            usage(stdout);
            return 0;
        }
        if (!set_option(&a, o, optarg))
            return 2;
    }
    if (optind != argc - 1 || a.provider == NULL) {
        usage(stderr);
        return 2;
    }
    a.file = argv[optind];
    if (a.config == NULL && a.db == NULL)
        a.config = "ringmain.yaml";
    if (!ledger_stage_open(a.config, a.db, a.book, &s))
        return 1;
    int code = run(&a, &s);
    ledger_stage_close(&s);
    return code;
}
