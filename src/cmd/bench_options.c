#include "cmd/bench.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>

static void usage(FILE *to)
{
    fputs(
        "usage: ringmain bench [options]\n"
        "       ringmain bench faults [options]      the sixteen faults of a public failover test\n"
        "\n"
        "Starts pretend providers and the gateway, sends streamed chat calls past it and through it while providers "
        "fail,\n"
        "and tells what users felt, what it cost, and how sure that is. docs/bench.md has the method.\n"
        "\n"
        "  --quick               small: under 40 s\n"
        "  --concurrency N       requests at once (200)\n"
        "  --requests N          a phase and round (three times the concurrency)\n"
        "  --rate R              open loop: R requests a second, due at fixed times; latency counts from then\n"
        "  --repeat N            rounds (6)\n"
        "  --every T             from the start of a round to the next: 90s, 30m, 8h\n"
        "  --resume-file FILE    rounds are kept there, and earlier ones are taken in\n"
        "  --budget-ms N         first-token budget (2000)\n"
        "  --seed N              of chances and intervals (1)\n"
        "  --phases A,B,…        only these; --phases help lists them\n"
        "  --no-outage           without the timeline of an outage\n"
        "  --expect 'FIGURE<=N'  exit 1 unless it holds; < <= > >=; may stand often; --expect help lists figures\n"
        "  --json FILE|-         the result as JSON\n"
        "  --html FILE           the report, one page that loads nothing\n"
        "  --keep                keep configs and logs of the run\n"
        "\n"
        "  --config FILE         real providers: a route of this configuration, failures by a pretend link before it\n"
        "  --route MODEL         which (its first)\n"
        "  --max-usd D           needed with --config: the run stops before it can cost more\n"
        "  --max-tokens N        of an answer (64)\n"
        "  --yes                 agree to the cost without being asked\n"
        "\n"
        "  -h, --help            this text\n"
        "\n"
        "Exit: 0 done, 1 failed or an expectation does not hold, 2 usage, 130 Ctrl-C (what there is is written, marked "
        "partial).\n",
        to);
}

/* ---- options ---- */

enum option_id {
    OPTION_QUICK = 256,
    OPTION_CONCURRENCY,
    OPTION_REQUESTS,
    OPTION_RATE,
    OPTION_REPEAT,
    OPTION_EVERY,
    OPTION_RESUME,
    OPTION_BUDGET,
    OPTION_SEED,
    OPTION_PHASES,
    OPTION_NO_OUTAGE,
    OPTION_EXPECT,
    OPTION_JSON,
    OPTION_HTML,
    OPTION_KEEP,
    OPTION_CONFIG,
    OPTION_ROUTE,
    OPTION_MAX_USD,
    OPTION_MAX_TOKENS,
    OPTION_YES
};

static const struct option options[] = {{"quick", no_argument, NULL, OPTION_QUICK},
                                        {"concurrency", required_argument, NULL, OPTION_CONCURRENCY},
                                        {"requests", required_argument, NULL, OPTION_REQUESTS},
                                        {"rate", required_argument, NULL, OPTION_RATE},
                                        {"repeat", required_argument, NULL, OPTION_REPEAT},
                                        {"every", required_argument, NULL, OPTION_EVERY},
                                        {"resume-file", required_argument, NULL, OPTION_RESUME},
                                        {"budget-ms", required_argument, NULL, OPTION_BUDGET},
                                        {"seed", required_argument, NULL, OPTION_SEED},
                                        {"phases", required_argument, NULL, OPTION_PHASES},
                                        {"no-outage", no_argument, NULL, OPTION_NO_OUTAGE},
                                        {"expect", required_argument, NULL, OPTION_EXPECT},
                                        {"json", required_argument, NULL, OPTION_JSON},
                                        {"html", required_argument, NULL, OPTION_HTML},
                                        {"keep", no_argument, NULL, OPTION_KEEP},
                                        {"config", required_argument, NULL, OPTION_CONFIG},
                                        {"route", required_argument, NULL, OPTION_ROUTE},
                                        {"max-usd", required_argument, NULL, OPTION_MAX_USD},
                                        {"max-tokens", required_argument, NULL, OPTION_MAX_TOKENS},
                                        {"yes", no_argument, NULL, OPTION_YES},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static void init_options(struct bench_options *o)
{
    *o = (struct bench_options){.concurrency = 200,
                                .rounds = 6,
                                .budget_ms = 2000,
                                .system_tokens = 1200,
                                .user_tokens = 200,
                                .seed = 1,
                                .max_nusd = -1,
                                .has_outage = true,
                                .a = {150, 400},
                                .b = {160, 420},
                                .c = {250, 2400},
                                .tokens = 60,
                                .tokens_per_s = 80,
                                .ramp_ms = 500,
                                .n_standbys = BENCH_STANDBYS_MAX,
                                .keepalive_s = 30,
                                .cold_after_ms = 36000,
                                .cold_connect_ms = 150,
                                .cold_first_ms = 800,
                                .outage_rate = 25,
                                .outage_length_ms = 40000,
                                .outage_from_ms = 10000,
                                .outage_to_ms = 24000,
                                .bucket_ms = 500,
                                .cooldown_ms = 5000,
                                .timeout_ms = 30000};
}

static void make_quick(struct bench_options *o)
{
    o->is_quick = true;
    o->concurrency = 20;
    o->rounds = 3;
    o->budget_ms = 300;
    o->a = (struct bench_pretend){40, 110};
    o->b = (struct bench_pretend){45, 120};
    o->c = (struct bench_pretend){60, 400};
    o->tokens = 20;
    o->tokens_per_s = 200;
    o->ramp_ms = 100;
    o->n_standbys = 8;
    o->keepalive_s = 1;
    o->cold_after_ms = 1600;
    o->cold_first_ms = 300;
    o->cold_connect_ms = 50;
    o->outage_length_ms = 5000;
    o->outage_from_ms = 1200;
    o->outage_to_ms = 2600;
    o->bucket_ms = 200;
    o->cooldown_ms = 700;
    o->timeout_ms = 10000;
}

static bool number(const char *text, uint64_t min, uint64_t max, unsigned *out)
{
    uint64_t v;
    if (!bytes_to_u64(bytes_of(text), &v) || v < min || v > max)
        return false;
    *out = (unsigned)v;
    return true;
}

static bool rate(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) && *out > 0 && *out <= 100000;
}

/* Few and small: they cost money. */
static void make_real(struct bench_options *o)
{
    o->concurrency = 5;
    o->n = 20;
    o->rounds = 3;
    o->max_tokens = 64;
    o->ramp_ms = 500;
    o->n_standbys = 0;
    o->has_outage = false;
    o->timeout_ms = 60000;
}

/* "0.50": at most nine decimals. */
static bool dollars(const char *text, int64_t *out)
{
    struct bytes rest = bytes_of(text), whole = bytes_cut(&rest, '.');
    uint64_t n, part = 0;
    if (!bytes_to_u64(whole, &n) || n > 1000000 || rest.n > 9 || (rest.n > 0 && !bytes_to_u64(rest, &part)))
        return false;
    for (size_t i = rest.n; i < 9; i++)
        part *= 10;
    *out = (int64_t)(n * 1000000000 + part);
    return *out > 0;
}

/* 90s, 30m, 8h */
static bool duration(const char *text, uint64_t *out)
{
    struct bytes b = bytes_of(text);
    uint64_t unit = bytes_ends_with(b, BYTES("h")) ? 3600 : bytes_ends_with(b, BYTES("m")) ? 60 : 1;
    bool has_unit = b.n > 0 && strchr("hms", b.p[b.n - 1]) != NULL;
    if (!has_unit || !bytes_to_u64(bytes_slice(b, 0, b.n - 1), out) || *out > 1000000)
        return false;
    *out *= unit;
    return true;
}

static bool phases(struct bench_options *o, const char *list)
{
    struct bytes rest = bytes_of(list);
    do {
        struct bytes name = bytes_trim(bytes_cut(&rest, ','));
        enum phase_id id = phase_find(name);
        if (id == PHASE_N) {
            fprintf(stderr, "ringmain bench: no phase '%.*s'; did you mean %s? --phases help lists them\n", (int)name.n,
                    name.p, phase_nearest(name));
            return false;
        }
        o->phases[id] = true;
    } while (rest.p != NULL);
    return true;
}

static bool expect(struct bench_options *o, const char *text, const struct figures *known)
{
    const char *why;
    struct expect e;
    if (o->n_expects == RESULT_EXPECTS_MAX || !expect_parse(text, &e, &why)) {
        fprintf(stderr, "ringmain bench: --expect '%s': %s\n", text,
                o->n_expects == RESULT_EXPECTS_MAX ? "there are too many" : why);
        return false;
    }
    if (figures_find(known, e.name) == NULL) {
        struct bytes near = figures_nearest(known, e.name);
        fprintf(stderr, "ringmain bench: no figure '%.*s'; did you mean %.*s? --expect help lists them\n",
                (int)e.name.n, e.name.p, (int)near.n, near.p);
        return false;
    }
    o->expects[o->n_expects++] = e;
    return true;
}

/* *told: the message was printed already. */
static bool set_one(struct bench_options *o, int id, const char *value, const struct figures *known, bool *told)
{
    uint64_t seed;
    *told = id == OPTION_PHASES || id == OPTION_EXPECT;
    switch (id) {
    case OPTION_QUICK:
        return true; /* was read first */
    case OPTION_CONCURRENCY:
        return number(value, 1, 2000, &o->concurrency);
    case OPTION_REQUESTS:
        return number(value, 1, 100000, &o->n);
    case OPTION_RATE:
        return rate(value, &o->rate);
    case OPTION_REPEAT:
        return number(value, 1, 1000, &o->rounds);
    case OPTION_EVERY:
        return duration(value, &o->every_s);
    case OPTION_RESUME:
        o->resume_file = value;
        return true;
    case OPTION_BUDGET:
        return number(value, 50, 60000, &o->budget_ms);
    case OPTION_SEED:
        if (!bytes_to_u64(bytes_of(value), &seed) || seed > INT32_MAX)
            return false;
        o->seed = seed;
        return true;
    case OPTION_PHASES:
        return phases(o, value);
    case OPTION_NO_OUTAGE:
        o->has_outage = false;
        return true;
    case OPTION_EXPECT:
        return expect(o, value, known);
    case OPTION_JSON:
        o->json = value;
        return true;
    case OPTION_HTML:
        o->html = value;
        return true;
    case OPTION_CONFIG:
        o->config = value;
        return true;
    case OPTION_ROUTE:
        o->route = value;
        return true;
    case OPTION_MAX_USD:
        return dollars(value, &o->max_nusd);
    case OPTION_MAX_TOKENS:
        return number(value, 1, 100000, &o->max_tokens);
    case OPTION_YES:
        o->is_agreed = true;
        return true;
    default:
        o->keeps = true;
        return true;
    }
}

static int list_phases(void)
{
    for (int i = 0; i < PHASE_N; i++)
        printf("%-15s %s: %s\n", phase_spec((enum phase_id)i)->name, phase_spec((enum phase_id)i)->title,
               phase_spec((enum phase_id)i)->what);
    return 1;
}

static int list_figures(const struct figures *known)
{
    for (size_t i = 0; i < known->n; i++)
        printf("%.*s\n", (int)known->v[i].name.n, known->v[i].name.p);
    return 1;
}

/* What the defaults depend on, wherever it stands. */
static void choose_defaults(int argc, char **argv, struct bench_options *o)
{
    bool is_quick = false, is_real = false;
    init_options(o);
    opterr = optind = 0;
    for (int id; (id = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        is_quick |= id == OPTION_QUICK;
        is_real |= id == OPTION_CONFIG;
    }
    opterr = 1;
    optind = 0;
    if (is_quick)
        make_quick(o);
    if (is_real)
        make_real(o);
}

/* Two results in one file, or a page that nobody can open. */
static bool has_good_files(const struct bench_options *o)
{
    const char *why = NULL;
    if (o->html != NULL && strcmp(o->html, "-") == 0)
        why = "--html takes a file";
    else if (o->html != NULL && o->json != NULL && strcmp(o->html, o->json) == 0)
        why = "--html and --json are the same file";
    if (why != NULL)
        fprintf(stderr, "ringmain bench: %s\n", why);
    return why == NULL;
}

/* How cold a real standby is cannot be known, and what B is to pretend providers is the chain's first link. */
static bool is_for_real(enum phase_id id)
{
    return id != PHASE_COLD && id != PHASE_WARM && id != PHASE_DIRECT_B;
}

static void fill_up(struct bench_options *o)
{
    bool any = false;
    for (int i = 0; i < PHASE_N; i++)
        any |= o->phases[i];
    for (int i = 0; i < PHASE_N && !any; i++)
        o->phases[i] = o->config == NULL || is_for_real((enum phase_id)i);
    if (o->n == 0)
        o->n = o->is_quick ? 2 * o->concurrency : 3 * o->concurrency;
}

/* What does not go with real providers. 0 = go on; else the exit code + 1. */
static int open_real(struct bench_options *o)
{
    if (o->config == NULL && (o->route != NULL || o->max_nusd >= 0)) {
        fputs("ringmain bench: --route and --max-usd go with --config\n", stderr);
        return 3;
    }
    if (o->config == NULL)
        return 0;
    if (o->max_nusd < 0) {
        fputs("ringmain bench: --config sends to real providers: --max-usd says what that may cost\n", stderr);
        return 3;
    }
    for (int i = 0; i < PHASE_N; i++)
        if (o->phases[i] && !is_for_real((enum phase_id)i)) {
            fprintf(stderr, "ringmain bench: the phase %s takes pretend providers; it does not go with --config\n",
                    phase_spec((enum phase_id)i)->name);
            return 3;
        }
    o->real = bench_real_open(o->config, o->route);
    if (o->real == NULL)
        return 2;
    struct arena a = {0};
    struct load_target t;
    bool has_direct = bench_real_target(o->real, o, &a, &t);
    arena_fini(&a);
    if (!has_direct)
        o->phases[PHASE_DIRECT] = o->phases[PHASE_NAIVE] = false;
    return 0;
}

int bench_options_read(int argc, char **argv, struct bench_options *o, const struct figures *known)
{
    int id, at = 0;
    bool told = false;
    choose_defaults(argc, argv, o);
    while ((id = getopt_long(argc, argv, "h", options, &at)) != -1) {
        if (id == 'h') {
            usage(stdout);
            return 1;
        }
        if (id == OPTION_PHASES && strcmp(optarg, "help") == 0)
            return list_phases();
        if (id == OPTION_EXPECT && strcmp(optarg, "help") == 0)
            return list_figures(known);
        if (id == '?')
            return 3;
        if (!set_one(o, id, optarg, known, &told)) {
            if (!told)
                fprintf(stderr, "ringmain bench: --%s: '%s' is not understood\n", options[at].name, optarg);
            return 3;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "ringmain bench: '%s' is too much; ringmain bench --help\n", argv[optind]);
        return 3;
    }
    if (!has_good_files(o))
        return 3;
    fill_up(o);
    return open_real(o);
}

void bench_options_tell(const struct bench_options *o, struct result_settings *s)
{
    static const char *const names[] = {"A", "B", "C"};
    const struct bench_pretend *p[] = {&o->a, &o->b, &o->c};
    *s = (struct result_settings){.concurrency = o->concurrency,
                                  .requests_per_phase = o->n,
                                  .rate = o->rate,
                                  .system_tokens = o->system_tokens,
                                  .user_tokens = o->user_tokens,
                                  .ttft_budget_ms = o->budget_ms,
                                  .n_providers = RM_COUNTOF(names)};
    if (o->real != NULL) {
        bench_real_tell(o->real, s);
        return;
    }
    for (size_t i = 0; i < RM_COUNTOF(names); i++) {
        struct result_provider *x = &s->providers[i];
        *x = (struct result_provider){.dialect = "openai", .model = "bench", .tokens_per_s = o->tokens_per_s};
        snprintf(x->name, sizeof x->name, "%s", names[i]);
        snprintf(x->ttft, sizeof x->ttft, "lognormal, p50 %u ms, p99 %u ms", p[i]->p50_ms, p[i]->p99_ms);
        snprintf(x->price, sizeof x->price, "pretend: $1 in, $4 out per million tokens");
    }
}
