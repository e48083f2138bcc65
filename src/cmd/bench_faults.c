/* ringmain bench faults: the sixteen scenarios of Failover Bench through this gateway, or through any other that speaks
 * the OpenAI dialect and has the pretend provider behind it. */
#include "cmd/cmd.h"
#include "cmd/faults_stage.h"
#include "cmd/tool.h"
#include "config/address.h"
#include "lab/fb_config.h"
#include "lab/fb_report.h"
#include "net/listen.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { QUICK_SPEED = 4, SPEED_MAX = 20, EXIT_USAGE = 2, EXIT_STOPPED = 130 };

struct faults_options {
    const char *base_url, *key, *wall, *config; /* NULL = not given */
    unsigned speed, expect_pass;
    bool is_json, has_fallback;
    bool is_wanted[JUDGE_SCENARIOS];
};

static void usage(FILE *to)
{
    fputs("usage: ringmain bench faults [options]\n\n"
          "The sixteen scenarios of Failover Bench (methodology v0.1): a provider that fails in sixteen ways, what a "
          "client\nmakes of each, and what the provider saw of the gateway. Without --base-url this gateway is tested: "
          "it and the\npretend provider are started for it.\n\n"
          "  --only S01,S14        only these\n"
          "  --quick               four times as fast: 16 scenarios in some 25 s\n"
          "  --speed N             N times as fast (1 to 20); 1, the default, is as published\n"
          "  --config FILE         another configuration of this gateway than bench/failover-bench.yaml; the addresses "
          "it listens\n"
          "                        on and the provider at 127.0.0.1:9199 are replaced by free ones\n"
          "  --base-url URL        test the gateway that answers there, http://HOST:PORT/v1\n"
          "  --key KEY             its key\n"
          "  --wall HOST:PORT      where its provider is: ringmain mock --listen HOST:PORT (127.0.0.1:9199; with "
          "--speed N\n"
          "                        started with --fb-speed N)\n"
          "  --no-fallback         it has no fallback: checks that need one are not applicable\n"
          "  --expect-pass N       fail when fewer than N pass\n"
          "  --json                the whole as JSON\n"
          "  -h, --help            this text\n\n"
          "Verdicts: pass = the whole answer came and every check is good; partial = it came, an advisory check "
          "failed;\nsafe = it did not come, but a clean error did; fail = a hang, a truncated answer presented as "
          "success, or a\nrequired check failed. Exit code: 0 no scenario failed, 1 one did or nothing could be "
          "tested, 2 usage.\n",
          to);
}

/* ---- options ---- */

static bool wrong(const char *option, const char *value, const char *why)
{
    fprintf(stderr, "ringmain bench faults: %s '%s' %s\n", option, value, why);
    return false;
}

static bool set_only(struct faults_options *o, const char *value)
{
    struct bytes list = bytes_of(value);
    memset(o->is_wanted, 0, sizeof o->is_wanted);
    do {
        struct bytes id = bytes_trim(bytes_cut(&list, ','));
        const struct judge_scenario *s = judge_find(id);
        if (s == NULL) {
            fprintf(stderr, "ringmain bench faults: --only: no scenario '%.*s'; there are S01 to S%02d\n", (int)id.n,
                    id.n > 0 ? id.p : "", JUDGE_SCENARIOS);
            return false;
        }
        o->is_wanted[s - judge_scenarios] = true;
    } while (list.p != NULL);
    return true;
}

static bool set_number(const char *option, const char *value, uint64_t min, uint64_t max, unsigned *out)
{
    uint64_t n;
    char range[48];
    snprintf(range, sizeof range, "is not a number from %u to %u", (unsigned)min, (unsigned)max);
    if (!bytes_to_u64(bytes_of(value), &n) || n < min || n > max)
        return wrong(option, value, range);
    *out = (unsigned)n;
    return true;
}

static bool set_option(struct faults_options *o, int option)
{
    switch (option) {
    case 'o':
        return set_only(o, optarg);
    case 'q':
        o->speed = QUICK_SPEED;
        return true;
    case 's':
        return set_number("--speed", optarg, 1, SPEED_MAX, &o->speed);
    case 'e':
        return set_number("--expect-pass", optarg, 0, JUDGE_SCENARIOS, &o->expect_pass);
    case 'c':
        o->config = optarg;
        return true;
    case 'b':
        o->base_url = optarg;
        return true;
    case 'k':
        o->key = optarg;
        return true;
    case 'w':
        o->wall = optarg;
        return true;
    case 'n':
        o->has_fallback = false;
        return true;
    case 'j':
        o->is_json = true;
        return true;
    default:
        return false;
    }
}

static bool fit_together(const struct faults_options *o)
{
    if (o->base_url != NULL && o->config != NULL)
        return wrong("--config", o->config, "is for this gateway; with --base-url another one is tested");
    if (o->base_url == NULL && (o->wall != NULL || o->key != NULL))
        return wrong(o->wall != NULL ? "--wall" : "--key", o->wall != NULL ? o->wall : "…", "needs --base-url");
    return true;
}

/* 0 = go on; else the exit code + 1. */
static int read_options(int argc, char **argv, struct faults_options *o)
{
    static const struct option options[] = {{"only", required_argument, NULL, 'o'},
                                            {"quick", no_argument, NULL, 'q'},
                                            {"speed", required_argument, NULL, 's'},
                                            {"config", required_argument, NULL, 'c'},
                                            {"base-url", required_argument, NULL, 'b'},
                                            {"key", required_argument, NULL, 'k'},
                                            {"wall", required_argument, NULL, 'w'},
                                            {"no-fallback", no_argument, NULL, 'n'},
                                            {"expect-pass", required_argument, NULL, 'e'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    *o = (struct faults_options){.speed = 1, .has_fallback = true};
    memset(o->is_wanted, true, sizeof o->is_wanted);
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            usage(stdout);
            return 1;
        }
        if (!set_option(o, option)) {
            fputs("ringmain bench faults --help tells the options\n", stderr);
            return EXIT_USAGE + 1;
        }
    }
    if (optind < argc) {
        wrong("the argument", argv[optind], "is not understood");
        return EXIT_USAGE + 1;
    }
    return fit_together(o) ? 0 : EXIT_USAGE + 1;
}

/* ---- the run ---- */

struct bench {
    const struct faults_options *options;
    struct fb_run_conf conf;
    struct arena arena;
    struct listen_address wall;
    struct tls_context *tls;
    struct faults_stage stage;
    char gateway[160];
    struct loop *loop;
    struct watch signals;
    bool is_stopped;
};

static void on_signal(struct watch *w, unsigned ready)
{
    struct bench *b = RM_CONTAINER(w, struct bench, signals);
    struct signalfd_siginfo info;
    if (read(w->fd, &info, sizeof info) > 0) {
        b->is_stopped = true;
        loop_stop(b->loop);
    }
}

static void on_row(const struct fb_row *row, void *arg)
{
    struct buf line = {0};
    fb_report_line(row, &line);
    fputs(buf_cstr(&line), stderr);
    buf_fini(&line);
}

/* Another gateway. The exit code + 1, 0 = go on. */
static int find_gateway(struct bench *b)
{
    const struct faults_options *o = b->options;
    const char *wall = o->wall != NULL ? o->wall : fb_config_wall, *message;
    struct url url;
    const char *why = address_parse_url(bytes_of(o->base_url), &b->arena, &url);
    if (why != NULL || !listen_address_parse(bytes_of(wall), &b->wall) || b->wall.port == 0) {
        if (why != NULL)
            wrong("--base-url", o->base_url, why);
        else
            wrong("--wall", wall, "is not HOST:PORT");
        return EXIT_USAGE + 1;
    }
    if (url.is_tls && tls_context_new(NULL, &b->tls, &message) != ERR_OK) {
        wrong("--base-url", o->base_url, message);
        return 2;
    }
    snprintf(b->gateway, sizeof b->gateway, "%s", o->base_url);
    b->conf.gateway = (struct fb_target){
        .host = url.host, .port = url.port, .tls = b->tls, .prefix = url.path, .key = o->key != NULL ? o->key : ""};
    return 0;
}

/* This one. */
static int start_gateway(struct bench *b)
{
    if (!faults_stage_start(&b->stage, b->options->config, b->options->speed))
        return 2;
    snprintf(b->gateway, sizeof b->gateway, "http://127.0.0.1:%u/v1", b->stage.gateway_port);
    snprintf(b->wall.host, sizeof b->wall.host, "127.0.0.1");
    b->wall.port = b->stage.wall_port;
    b->conf.gateway =
        (struct fb_target){.host = "127.0.0.1", .port = b->stage.gateway_port, .prefix = "/v1", .key = ""};
    return 0;
}

/* Prints what came out; the exit code. */
static int report(struct bench *b, const struct fb_row *rows, bool is_whole, const char *why, uint64_t took_us)
{
    struct buf out = {0};
    char wall[160];
    snprintf(wall, sizeof wall, "%s:%u", b->wall.host, b->wall.port);
    struct fb_report_frame frame = {.gateway = b->gateway,
                                    .wall = wall,
                                    .speed = b->options->speed,
                                    .is_partial = !is_whole,
                                    .why = b->is_stopped ? "stopped" : why,
                                    .took_us = took_us};
    unsigned n_pass = fb_report_count(rows, JUDGE_PASS);
    if (why != NULL)
        fprintf(stderr, "ringmain bench faults: %s\n", why);
    if (b->options->is_json)
        fb_report_json(rows, &frame, &out);
    else if (is_whole || b->is_stopped)
        fb_report_table(rows, &out);
    bool is_written = fputs(buf_cstr(&out), stdout) >= 0 && fflush(stdout) == 0;
    buf_fini(&out);
    if (!is_written)
        fputs("ringmain bench faults: the result cannot be written to stdout\n", stderr);
    if (n_pass < b->options->expect_pass)
        fprintf(stderr, "ringmain bench faults: %u passed, %u expected\n", n_pass, b->options->expect_pass);
    if (b->is_stopped)
        return EXIT_STOPPED;
    return is_whole && is_written && fb_report_count(rows, JUDGE_FAIL) == 0 && n_pass >= b->options->expect_pass ? 0
                                                                                                                 : 1;
}

static int play(struct bench *b)
{
    b->conf.wall = (struct fb_target){.host = b->wall.host, .port = b->wall.port, .prefix = "", .key = ""};
    b->conf.speed = b->options->speed;
    b->conf.has_fallback = b->options->has_fallback;
    b->conf.on_row = on_row;
    memcpy(b->conf.is_wanted, b->options->is_wanted, sizeof b->conf.is_wanted);
    const char *why;
    uint64_t began_us = loop_clock_us();
    struct fb_run *run = fb_run_new(b->loop, &b->conf);
    bool is_whole = fb_run_play(run, &why);
    /* A gateway that has died answers nothing, which could be taken for clean errors. */
    if (is_whole && b->options->base_url == NULL && !faults_stage_is_alive(&b->stage))
        is_whole = false;
    int code = report(b, fb_run_rows(run), is_whole, why, loop_clock_us() - began_us);
    fb_run_free(run);
    return code;
}

static bool watch_signals(struct bench *b)
{
    sigset_t set;
    child_stop_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    b->signals =
        (struct watch){.fn = on_signal, .fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), .is_level = true};
    return b->signals.fd >= 0 && watch_add(b->loop, &b->signals) == ERR_OK;
}

int cmd_bench_faults(int argc, char **argv)
{
    struct faults_options options;
    int done = read_options(argc, argv, &options);
    if (done != 0)
        return done - 1;
    struct bench b = {.options = &options, .loop = tool_loop("bench")};
    int code = 1;
    if (watch_signals(&b)) {
        done = options.base_url != NULL ? find_gateway(&b) : start_gateway(&b);
        code = done != 0 ? done - 1 : play(&b);
        watch_del(b.loop, &b.signals);
    }
    if (options.base_url == NULL)
        faults_stage_end(&b.stage, code == 0 || code == EXIT_STOPPED);
    if (b.signals.fd >= 0)
        close(b.signals.fd);
    loop_free(b.loop);
    tls_context_unref(b.tls);
    arena_fini(&b.arena);
    return code;
}
