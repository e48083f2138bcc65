/* ringmain price budget: a target's first-token budget against what it costs, from the times that its ledger holds. */
#include "cmd/price_budget.h"

#include "base/text.h"
#include "cmd/ledger.h"
#include "cmd/price.h"
#include "codec/json_write.h"
#include "ledger/budgets.h"
#include "plan/latency.h"
#include "price/show.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES_MIN = 20, BAR_MAX = 24, ROW_STEP = 2, PER_CALLS = 1000 };
enum option_name { O_TARGET = 256, O_DB, O_LEDGER, O_SVG, O_VALUE, O_NEXT, O_HANG, O_SIZE, O_EFFORT, O_JSON };

struct asked {
    const char *config, *db, *since, *svg, *target, *size, *effort;
    int64_t second_micro; /* millionths of a dollar */
    uint64_t next_ms;     /* 0 = as this target's median */
    int64_t hang_ppm;     /* -1 = as measured */
    bool is_json;
};

static void usage(FILE *to)
{
    fputs("usage: ringmain price budget --target PROVIDER/MODEL [options]\n"
          "\n"
          "Draws what a first-token budget of this target trades: calls cut for nothing, users' wait, dollars. Marks "
          "the\n"
          "99th percentile, the budget in force and the cheapest point.\n"
          "\n"
          "  -c, --config FILE        the configuration: its ledger, prices and budgets (default ringmain.yaml)\n"
          "  --db FILE                another ledger; without -c no configuration is read\n"
          "  --from-ledger WHEN       only what came since: 30m, 24h, 7d, or a time (default: all)\n"
          "  --size 1k|4k|16k|64k|more                  only prompts of this size\n"
          "  --effort none|minimal|low|medium|high|max  only calls of this reasoning effort\n"
          "  --value-of-second USD    what a second of a user's waiting is worth (default 0.01)\n"
          "  --next-ms N              what a later link takes to its first token (default: this target's median)\n"
          "  --hang-share R           of all calls, that never answer (default: as measured)\n"
          "  --svg FILE               the curves as a picture\n"
          "  --json                   figures as one JSON object; money is whole nano-dollars per 1,000 calls\n"
          "  -h, --help               this text\n",
          to);
}

const char *budget_mark_word(enum budget_mark m)
{
    static const char *const words[MARKS] = {"p99", "in force", "cheapest"};
    return words[m];
}

/* ---- reading ---- */

struct reading {
    const struct asked *asked;
    struct sketch_sum sum;
    double n_left;
    double input_tokens, cut_nusd;
    uint64_t n_inputs, n_cut_priced;
};

static bool is_wanted(const struct asked *a, const struct budget_sample *s)
{
    struct call call = {.prompt_bytes = (uint64_t)(s->prompt_bytes > 0 ? s->prompt_bytes : 0),
                        .effort = bytes_of(s->effort)};
    struct latency_key k = latency_key_of(0, &call);
    return (a->size == NULL || strcmp(a->size, latency_size_word(k.size)) == 0) &&
           (a->effort == NULL || strcmp(a->effort, latency_effort_word(k.effort)) == 0);
}

static void take_sample(const struct budget_sample *s, void *arg)
{
    struct reading *r = arg;
    if (!is_wanted(r->asked, s))
        return;
    unsigned bucket = sketch_bucket((uint64_t)s->us);
    double *of = s->is_answered ? r->sum.answered : r->sum.cut,
           *n = s->is_answered ? &r->sum.n_answered : &r->sum.n_cut;
    of[bucket]++;
    ++*n;
    r->n_left += !s->is_answered && !s->is_cut;
    if (s->input_tokens > 0) {
        r->input_tokens += (double)s->input_tokens;
        r->n_inputs++;
    }
    if (!s->is_answered && s->is_cut && s->cost_nusd != NUSD_UNKNOWN) {
        r->cut_nusd += (double)s->cost_nusd;
        r->n_cut_priced++;
    }
}

/* What a cut attempt costs: as cut ones did, else its prompt at today's price. */
static void set_cost(struct budget_report *out, const struct reading *r, const struct ledger_stage *stage)
{
    if (r->n_cut_priced > 0) {
        out->is_priced = out->is_cut_measured = true;
        out->ask.cut_usd = r->cut_nusd / (double)r->n_cut_priced / 1e9;
        return;
    }
    bool is_standin;
    int64_t now_ms = reader_now_ms(stage->reader);
    const struct price *p = prices_find(stage->prices, out->provider, out->model, "", now_ms, &is_standin);
    struct usage u = {.input = r->n_inputs > 0 ? (int64_t)(r->input_tokens / (double)r->n_inputs + 0.5) : 0};
    int64_t nusd = p != NULL ? price_cost(p, &u) : NUSD_UNKNOWN;
    out->is_priced = nusd != NUSD_UNKNOWN;
    out->ask.cut_usd = out->is_priced ? (double)nusd / 1e9 : 0;
}

static const struct link_conf *find_link(const struct config *c, const char *provider, const char *model,
                                         const struct route_conf **route)
{
    for (size_t i = 0; c != NULL && i < c->n_routes; i++)
        for (size_t k = 0; k < c->routes[i].n_links; k++) {
            const struct link_conf *l = &c->routes[i].links[k];
            if (strcmp(l->provider->name, provider) == 0 && strcmp(l->model, model) == 0) {
                *route = &c->routes[i];
                return l;
            }
        }
    return NULL;
}

static void set_marks(struct budget_report *out, const struct config *c, double n_answered)
{
    static const struct auto_conf built_in = {AUTO_P99, 300, 30000, 15000, 200, false};
    const struct route_conf *route = NULL;
    const struct link_conf *link = find_link(c, out->provider, out->model, &route);
    const struct auto_conf *conf = route != NULL ? &route->ttft_auto : &built_in;
    out->auto_us = latency_budget_us(&out->survival, n_answered, conf);
    out->is_auto = link != NULL && link->is_auto_budget;
    out->marks_us[MARK_P99] = out->p99_us;
    if (link != NULL)
        out->marks_us[MARK_CURRENT] =
            out->is_auto && !route->ttft_auto.is_shadow ? out->auto_us : (uint64_t)link->ttft_budget_ms * 1000;
}

static void compute(struct budget_report *out, const struct asked *a)
{
    uint64_t slowest = sketch_time(out->survival.end - 1), to = 2 * (out->p99_us != 0 ? out->p99_us : slowest);
    if (to < out->marks_us[MARK_CURRENT] + out->marks_us[MARK_CURRENT] / 4)
        to = out->marks_us[MARK_CURRENT] + out->marks_us[MARK_CURRENT] / 4;
    out->ask.survival = &out->survival;
    out->ask.from_us = out->p50_us / 2 > 10000 ? out->p50_us / 2 : 10000;
    out->ask.to_us = to > 2 * out->ask.from_us ? to : 2 * out->ask.from_us;
    out->ask.next_us = a->next_ms != 0 ? a->next_ms * 1000 : out->p50_us != 0 ? out->p50_us : slowest;
    out->ask.hung_share = a->hang_ppm >= 0 ? (double)a->hang_ppm / 1e6 : -1;
    out->ask.second_usd = (double)a->second_micro / 1e6;
    tradeoff_of(&out->ask, &out->curve);
    out->marks_us[MARK_CHEAPEST] = out->curve.points[out->curve.cheapest].budget_us;
}

static bool read_ledger(struct ledger_stage *stage, const struct asked *a, struct reading *r, struct budget_report *out)
{
    int64_t since_ms = 0;
    if (a->since != NULL && !ledger_since(stage->reader, a->since, &since_ms)) {
        fprintf(stderr, "ringmain price: --from-ledger is '%s'; expected 30m, 24h, 7d, or a time\n", a->since);
        return false;
    }
    uint64_t since_id = since_ms > 0 ? reader_id_at(since_ms) : 0;
    if (budgets_samples(stage->reader, out->provider, out->model, since_id, take_sample, r) != ERR_OK) {
        fprintf(stderr, "ringmain price: %s\n", reader_error(stage->reader));
        return false;
    }
    if (r->sum.n_answered >= SAMPLES_MIN)
        return true;
    fprintf(stderr, "ringmain price: the ledger holds %.0f answers of %s/%s%s; %d are the least to say anything by\n",
            r->sum.n_answered, out->provider, out->model, a->size != NULL || a->effort != NULL ? " like that" : "",
            SAMPLES_MIN);
    return false;
}

static bool make_report(struct ledger_stage *stage, const struct asked *a, struct budget_report *out)
{
    static struct reading r; /* too large for the stack */
    r = (struct reading){.asked = a};
    if (!read_ledger(stage, a, &r, out))
        return false;
    survival_of(&r.sum, &out->survival);
    out->n_answered = r.sum.n_answered;
    out->n_left = r.n_left;
    out->n_cut = r.sum.n_cut - r.n_left;
    double answering = 1 - survival_end(&out->survival);
    out->p50_us = survival_quantile(&out->survival, 0.5 * answering);
    out->p95_us = survival_quantile(&out->survival, 0.95 * answering);
    out->p99_us = survival_quantile(&out->survival, 0.99 * answering);
    set_cost(out, &r, stage);
    set_marks(out, stage->config, r.sum.n_answered);
    compute(out, a);
    return true;
}

/* ---- for people ---- */

static int64_t per_calls(double usd)
{
    return (int64_t)(usd * PER_CALLS * 1e9 + 0.5);
}

static void put_time(struct buf *b, uint64_t us)
{
    if (us == 0)
        buf_puts(b, "not known");
    else
        buf_printf(b, "%llu ms", (unsigned long long)((us + 500) / 1000));
}

static void put_head(struct buf *b, const struct budget_report *r, const struct asked *a)
{
    buf_printf(b, "%s/%s: %.0f answers, %.0f cut, %.0f that left", r->provider, r->model, r->n_answered, r->n_cut,
               r->n_left);
    buf_puts(b, "\nof those that answer: half within ");
    put_time(b, r->p50_us);
    buf_puts(b, ", 95 % within ");
    put_time(b, r->p95_us);
    buf_puts(b, ", 99 % within ");
    put_time(b, r->p99_us);
    buf_printf(b, "; %.2f %% of all calls never answer", r->curve.hung_share * 100);
    buf_puts(b, "\nauto would give ");
    put_time(b, r->auto_us);
    if (r->marks_us[MARK_CURRENT] != 0) {
        buf_puts(b, ", in force is ");
        put_time(b, r->marks_us[MARK_CURRENT]);
        buf_puts(b, r->is_auto ? " (auto)" : "");
    }
    buf_puts(b, "\na second is worth $");
    text_usd(b, a->second_micro * 1000);
    buf_puts(b, ", a cut attempt costs ");
    if (r->is_priced)
        show_usd(b, (int64_t)(r->ask.cut_usd * 1e9 + 0.5), 6);
    else
        buf_puts(b, "nothing that is known");
    buf_puts(b, r->is_cut_measured ? " (measured), a later link answers after "
                                   : " (its prompt), a later link answers after ");
    put_time(b, r->ask.next_us);
    buf_puts(b, "\n\n");
}

/* The mark whose budget lies nearer to this row than to its neighbours. */
static void put_marks(struct buf *b, const struct budget_report *r, unsigned from, unsigned to)
{
    bool is_first = true;
    for (int m = 0; m < MARKS; m++) {
        uint64_t us = r->marks_us[m];
        uint64_t lo = from > 0 ? r->curve.points[from].budget_us : 0;
        uint64_t hi = to < TRADEOFF_POINTS ? r->curve.points[to].budget_us : UINT64_MAX;
        if (us == 0 || us < lo || us >= hi)
            continue;
        buf_printf(b, "%s%s ", is_first ? " <- " : "and ", budget_mark_word((enum budget_mark)m));
        put_time(b, us);
        buf_putc(b, ' ');
        is_first = false;
    }
}

static double dearest(const struct budget_report *r)
{
    double max = 0;
    for (unsigned i = 0; i < TRADEOFF_POINTS; i++)
        max = r->curve.points[i].total_usd > max ? r->curve.points[i].total_usd : max;
    return max;
}

static void put_row(struct buf *b, const struct budget_report *r, unsigned i, double max)
{
    const struct tradeoff_point *p = &r->curve.points[i];
    struct buf waste = {0}, total = {0};
    show_usd(&waste, per_calls(p->waste_usd), 4);
    show_usd(&total, per_calls(p->total_usd), 4);
    buf_printf(b, "%8llu ms  %7.3f %%  %8.2f s  %8.3f s  %10s  %10s  ",
               (unsigned long long)((p->budget_us + 500) / 1000), p->false_share * 100, (double)p->budget_us / 1e6,
               p->wait_us / 1e6, buf_cstr(&waste), buf_cstr(&total));
    int bar = max > 0 ? (int)(p->total_usd / max * BAR_MAX + 0.5) : 0;
    for (int k = 0; k < bar; k++)
        buf_puts(b, "\xe2\x96\x88");
    put_marks(b, r, i, i + ROW_STEP);
    buf_putc(b, '\n');
    buf_fini(&waste);
    buf_fini(&total);
}

static void print_text(const struct budget_report *r, const struct asked *a)
{
    struct buf b = {0};
    put_head(&b, r, a);
    buf_printf(&b, "%11s  %9s  %10s  %10s  %10s  %10s\n", "budget", "cut for", "wait in", "wait of", "waste per",
               "with waits");
    buf_printf(&b, "%11s  %9s  %10s  %10s  %10s  %10s\n", "", "nothing", "an outage", "all calls", "1,000", "at worth");
    double max = dearest(r);
    for (unsigned i = 0; i < TRADEOFF_POINTS; i += ROW_STEP)
        put_row(&b, r, i, max);
    fwrite(b.p, 1, b.n, stdout);
    buf_fini(&b);
}

/* ---- for programs ---- */

static void named_us(struct json_writer *w, const char *name, uint64_t us)
{
    jw_key(w, name);
    if (us == 0)
        jw_null(w);
    else
        jw_uint(w, us);
}

static void point_json(struct json_writer *w, const struct tradeoff_point *p)
{
    jw_object(w);
    named_us(w, "budget_us", p->budget_us);
    jw_named_int(w, "false_ppm", (int64_t)(p->false_share * 1e6 + 0.5));
    jw_named_int(w, "cut_ppm", (int64_t)(p->cut_share * 1e6 + 0.5));
    jw_named_int(w, "wait_us", (int64_t)(p->wait_us + 0.5));
    jw_named_int(w, "waste_nusd", per_calls(p->waste_usd));
    jw_named_int(w, "total_nusd", per_calls(p->total_usd));
    jw_end(w);
}

static void head_json(struct json_writer *w, const struct budget_report *r, const struct asked *a)
{
    jw_named_cstr(w, "provider", r->provider);
    jw_named_cstr(w, "model", r->model);
    jw_named_int(w, "answered", (int64_t)r->n_answered);
    jw_named_int(w, "cut", (int64_t)r->n_cut);
    jw_named_int(w, "left", (int64_t)r->n_left);
    named_us(w, "p50_us", r->p50_us);
    named_us(w, "p95_us", r->p95_us);
    named_us(w, "p99_us", r->p99_us);
    named_us(w, "auto_us", r->auto_us);
    named_us(w, "in_force_us", r->marks_us[MARK_CURRENT]);
    named_us(w, "cheapest_us", r->marks_us[MARK_CHEAPEST]);
    named_us(w, "next_us", r->ask.next_us);
    jw_named_int(w, "hung_ppm", (int64_t)(r->curve.hung_share * 1e6 + 0.5));
    jw_named_int(w, "second_nusd", a->second_micro * 1000);
    jw_key(w, "cut_nusd");
    if (r->is_priced)
        jw_int(w, (int64_t)(r->ask.cut_usd * 1e9 + 0.5));
    else
        jw_null(w);
    jw_named_int(w, "per_calls", PER_CALLS);
}

static void print_json(const struct budget_report *r, const struct asked *a)
{
    struct buf b = {0};
    struct json_writer w;
    jw_init(&w, &b);
    jw_object(&w);
    head_json(&w, r, a);
    jw_key(&w, "points");
    jw_array(&w);
    for (unsigned i = 0; i < TRADEOFF_POINTS; i++)
        point_json(&w, &r->curve.points[i]);
    jw_end(&w);
    jw_end(&w);
    puts(buf_cstr(&b));
    buf_fini(&b);
}

/* ---- asking ---- */

static bool write_svg(const struct budget_report *r, const char *path)
{
    struct buf b = {0};
    budget_svg(r, &b);
    FILE *f = fopen(path, "w");
    bool ok = f != NULL && fwrite(b.p, 1, b.n, f) == b.n;
    if (f != NULL)
        ok = fclose(f) == 0 && ok;
    if (!ok)
        fprintf(stderr, "ringmain price: %s: %s\n", path, strerror(errno));
    buf_fini(&b);
    return ok;
}

static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                        {"target", required_argument, NULL, O_TARGET},
                                        {"db", required_argument, NULL, O_DB},
                                        {"from-ledger", required_argument, NULL, O_LEDGER},
                                        {"svg", required_argument, NULL, O_SVG},
                                        {"value-of-second", required_argument, NULL, O_VALUE},
                                        {"next-ms", required_argument, NULL, O_NEXT},
                                        {"hang-share", required_argument, NULL, O_HANG},
                                        {"size", required_argument, NULL, O_SIZE},
                                        {"effort", required_argument, NULL, O_EFFORT},
                                        {"json", no_argument, NULL, O_JSON},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static bool tell(const char *option, const char *value, const char *expected)
{
    fprintf(stderr, "ringmain price: --%s is '%s'; expected %s\n", option, value, expected);
    return false;
}

static bool read_word(const char *option, const char *value, const char *(*words)(unsigned), unsigned n,
                      const char **out)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(value, words(i)) == 0) {
            *out = value;
            return true;
        }
    fprintf(stderr, "ringmain price: --%s is '%s'; expected", option, value);
    for (unsigned i = 0; i < n; i++)
        fprintf(stderr, "%s %s", i > 0 ? "," : "", words(i));
    fputc('\n', stderr);
    return false;
}

static bool set_number(struct asked *a, int o, const char *value)
{
    uint32_t ppm;
    switch (o) {
    case O_VALUE:
        return text_price(bytes_of(value), &a->second_micro) ||
               tell("value-of-second", value, "US dollars as a decimal number like 0.01, at most six decimals");
    case O_NEXT:
        return (bytes_to_u64(bytes_of(value), &a->next_ms) && a->next_ms > 0 && a->next_ms <= 3600000) ||
               tell("next-ms", value, "a whole number of milliseconds from 1 to 3600000");
    default:
        if (!show_ppm_parse(bytes_of(value), &ppm))
            return tell("hang-share", value, "a share such as 2% or 0.02");
        a->hang_ppm = ppm;
        return true;
    }
}

static bool set_option(struct asked *a, int o, const char *value)
{
    switch (o) {
    case 'c':
        a->config = value;
        return true;
    case O_TARGET:
        a->target = value;
        return true;
    case O_DB:
        a->db = value;
        return true;
    case O_LEDGER:
        a->since = value;
        return true;
    case O_SVG:
        a->svg = value;
        return true;
    case O_JSON:
        return a->is_json = true;
    case O_SIZE:
        return read_word("size", value, latency_size_word, LATENCY_SIZES, &a->size);
    case O_EFFORT:
        return read_word("effort", value, latency_effort_word, LATENCY_EFFORTS, &a->effort);
    case O_VALUE:
    case O_NEXT:
    case O_HANG:
        return set_number(a, o, value);
    default:
        usage(stderr);
        return false;
    }
}

/* A provider's name holds no slash; a model's may. */
static bool split_target(const char *target, struct arena *arena, struct budget_report *out)
{
    struct bytes model = bytes_of(target), provider = bytes_cut(&model, '/');
    if (provider.n == 0 || model.n == 0)
        return false;
    out->provider = arena_dup(arena, provider).p;
    out->model = arena_dup(arena, model).p;
    return true;
}

static int show(const struct asked *a)
{
    static struct budget_report r; /* too large for the stack */
    struct ledger_stage stage;
    struct arena arena = {0};
    r = (struct budget_report){.size = a->size, .effort = a->effort};
    int code = 1;
    if (!split_target(a->target, &arena, &r)) {
        (void)tell("target", a->target, "PROVIDER/MODEL");
        code = 2;
    } else if (ledger_stage_open(a->config, a->db, NULL, &stage)) {
        if (make_report(&stage, a, &r) && (a->svg == NULL || write_svg(&r, a->svg))) {
            if (a->is_json)
                print_json(&r, a);
            else
                print_text(&r, a);
            code = 0;
        }
        ledger_stage_close(&stage);
    }
    arena_fini(&arena);
    return code;
}

int price_budget(int argc, char **argv)
{
    struct asked a = {.second_micro = 10000, .hang_ppm = -1};
    int o;
    optind = 0;
    while ((o = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        if (o == 'h') {
            usage(stdout);
            return 0;
        }
        if (!set_option(&a, o, optarg))
            return 2;
    }
    if (a.target == NULL || optind < argc) {
        usage(stderr);
        return 2;
    }
    if (a.config == NULL && a.db == NULL)
        a.config = "ringmain.yaml";
    return show(&a);
}
