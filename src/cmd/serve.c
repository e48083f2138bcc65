/* ringmain serve: load, start, then sit on signals. All signals are blocked in every thread and taken here. */
#include "serve/serve.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/load.h"
#include "panel/panel.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

enum { KEEP_SEC = 60 };

static void usage(FILE *to)
{
    fputs("usage: ringmain serve [-c FILE] [--trace ROOM] [--log-level LEVEL]\n"
          "\n"
          "Runs the gateway in the foreground.\n"
          "\n"
          "  -c, --config FILE    configuration (default ringmain.yaml)\n"
          "  --log-level LEVEL    trace, debug, info (default), warn or error\n"
          "  --trace ROOM         state moves of one room (relay, serve, http, …) or of all\n"
          "  -h, --help           this text\n"
          "\n"
          "Signals: SIGHUP reloads the configuration and reopens the access log, SIGTERM and SIGINT drain and stop, a\n"
          "second one stops at once.\n",
          to);
}

static enum err load_again(void *arg, struct config **out)
{
    struct config_faults faults = {0};
    enum err e = config_load_file(arg, &faults, out);
    struct buf text = {0};
    config_faults_text(&faults, &text);
    if (text.n > 0)
        fputs(buf_cstr(&text), stderr);
    buf_fini(&text);
    config_faults_fini(&faults);
    return e;
}

static sigset_t taken_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

static bool is_urgent(void)
{
    sigset_t set = taken_signals();
    struct timespec none = {0};
    int got = sigtimedwait(&set, NULL, &none);
    return got == SIGTERM || got == SIGINT;
}

static void wait_for_stop(struct gateway *g)
{
    sigset_t set = taken_signals();
    static const struct timespec often = {.tv_sec = KEEP_SEC};
    for (;;) {
        int got = sigtimedwait(&set, NULL, &often);
        if (got == SIGHUP)
            gateway_reload(g);
        else if (got > 0)
            return;
        if (got > 0 || errno == EAGAIN)
            gateway_keep(g);
    }
}

static bool log_level_of(const char *word)
{
    static const char *const words[] = {"trace", "debug", "info", "warn", "error"};
    for (size_t i = 0; i < RM_COUNTOF(words); i++)
        if (bytes_is(bytes_of(word), words[i])) {
            log_set_level((enum log_level)i);
            return true;
        }
    return false;
}

/* 0 = go on; else the exit code + 1. */
static int read_options(int argc, char **argv, const char **path)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"trace", required_argument, NULL, 't'},
                                            {"log-level", required_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int o;
    while ((o = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        if (o == 'c')
            *path = optarg;
        else if (o == 't')
            log_trace_room(optarg);
        else if (o == 'h') {
            usage(stdout);
            return 1;
        } else if (o != 'l' || !log_level_of(optarg)) {
            usage(stderr);
            return 3;
        }
    }
    if (optind < argc) {
        usage(stderr);
        return 3;
    }
    return 0;
}

static void health(struct buf *out, void *arg)
{
    gateway_health_json(arg, out);
}

static void metrics(struct buf *out, void *arg)
{
    gateway_metrics(arg, out);
}

static struct panel *start_panel(const struct config *c, struct gateway *g, char *message, size_t cap)
{
    struct panel_options o = {.listen = c->admin_listen,
                              .has_secret = c->has_admin_secret,
                              .ledger_path = c->ledger,
                              .health = health,
                              .metrics = metrics,
                              .arg = g};
    memcpy(o.secret_sha256, c->admin_secret_sha256, sizeof o.secret_sha256);
    struct panel *p = NULL;
    return panel_start(&o, &p, message, cap) == ERR_OK ? p : NULL;
}

static int run(const char *path)
{
    struct config *config = NULL;
    if (load_again((void *)(uintptr_t)path, &config) != ERR_OK)
        return 1;
    char message[320] = "";
    struct gateway *g = NULL;
    struct gateway_options o = {.config = config, .reload = load_again, .arg = (void *)(uintptr_t)path};
    if (gateway_start(&o, &g, message, sizeof message) != ERR_OK) {
        fprintf(stderr, "ringmain: %s\n", message);
        config_unref(config);
        return 1;
    }
    struct panel *panel = NULL;
    if (config->admin_listen[0] != '\0') {
        panel = start_panel(config, g, message, sizeof message);
        if (panel == NULL) {
            fprintf(stderr, "ringmain: admin: %s\n", message);
            gateway_stop(g, NULL);
            config_unref(config);
            return 1;
        }
    }
    LOG(LOG_INFO, "serve", "-", "ringmain %s listens on %s, admin on %s", RINGMAIN_VERSION, gateway_listen(g),
        panel ? panel_listen(panel) : "off");
    config_unref(config);
    mem_trim();
    wait_for_stop(g);
    panel_stop(panel);
    gateway_stop(g, is_urgent);
    return 0;
}

int cmd_serve(int argc, char **argv)
{
    const char *path = "ringmain.yaml";
    int stop = read_options(argc, argv, &path);
    if (stop != 0)
        return stop - 1;
    mem_give_back_large();
    sigset_t set = taken_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return run(path);
}
