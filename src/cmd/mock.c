/* ringmain mock: pretend providers that fail on purpose. */
#include "lab/mock.h"
#include "cmd/cmd.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { PROVIDERS_MAX = 64, SPEC_BYTES_MAX = 1024 };

struct setup {
    struct mock_conf base; /* from the plain options */
    struct mock_conf v[PROVIDERS_MAX];
    char specs[PROVIDERS_MAX][SPEC_BYTES_MAX]; /* texts of v point into them */
    char listens[PROVIDERS_MAX][160];
    size_t n;
};

static void usage(FILE *to)
{
    fputs("usage: ringmain mock [options] [--provider NAME=VALUE,…]…\n\n"
          "Pretends to be a provider: streams words in its dialect, counts tokens, and fails as it is told.\n\n"
          "  --listen HOST:PORT         default 127.0.0.1:9101; port 0 takes a free one and prints it\n"
          "  --dialect openai|anthropic default openai\n"
          "  --model NAME               told in answers; default: as asked\n"
          "  --ttft-ms N                time to the first token (40)\n"
          "  --gap-ms N                 between tokens (10)\n"
          "  --tokens N                 words an answer has (16)\n"
          "  --words \"TEXT\"             the words, repeated as often as needed\n"
          "  --fault WORD[,WORD…]       one per request, the last for good\n"
          "  --no-usage                 never tells how many tokens were used\n"
          "  --key KEY                  anything else is answered 401\n"
          "  --provider port=N,…        one more provider, with the same names; what is not given is as above\n"
          "  -h, --help                 this text\n\nFaults: ",
          to);
    fputs(fault_words(), to);
    fputs("\n  A number after a colon: cut:5 (after five words), 429:2 (retry-after 2 s), slow:800 (first token after "
          "800 ms).\n\nWhile it runs, on each provider's port:\n"
          "  POST /_mock/fault {\"fault\":\"429\",\"times\":1,\"retry_after\":2,\"after\":3,\"ttft_ms\":800,"
          "\"provider\":PORT}\n"
          "  POST /_mock/reset          no fault, empty log\n"
          "  GET  /_mock/log            the requests seen, as JSON\n"
          "  [[mock fault=cut after=2]] in the last user message: for this request alone\n",
          to);
}

static bool set_number(struct bytes value, uint64_t max, uint64_t *out)
{
    return bytes_to_u64(value, out) && *out <= max;
}

static bool set_dialect(struct mock_conf *c, struct bytes value)
{
    if (!bytes_is(value, "openai") && !bytes_is(value, "anthropic"))
        return false;
    c->dialect = bytes_is(value, "openai") ? SHAPE_OPENAI : SHAPE_ANTHROPIC;
    return true;
}

static bool set_faults(struct mock_conf *c, const char *value, char separator)
{
    char list[SPEC_BYTES_MAX];
    struct bytes bad;
    snprintf(list, sizeof list, "%s", value);
    for (char *p = list; *p != '\0'; p++)
        *p = *p == separator ? ',' : *p;
    return fault_parse_list(bytes_of(list), c->faults, &c->n_faults, &bad);
}

/* One setting; value is NUL-terminated and outlives c. In a --provider list the faults are separated by +. */
static bool set_one(struct mock_conf *c, const char *name, const char *value, char separator)
{
    struct bytes n = bytes_of(name), v = bytes_of(value);
    uint64_t number = 0;
    if (bytes_is(n, "listen"))
        c->listen = value;
    else if (bytes_is(n, "model"))
        c->model = value;
    else if (bytes_is(n, "key"))
        c->key = value;
    else if (bytes_is(n, "words"))
        c->words = value;
    else if (bytes_is(n, "no-usage"))
        c->no_usage = v.n == 0 || bytes_is(v, "true");
    else if (bytes_is(n, "dialect"))
        return set_dialect(c, v);
    else if (bytes_is(n, "fault"))
        return set_faults(c, value, separator);
    else if (!set_number(v, 10000000, &number))
        return false;
    else if (bytes_is(n, "ttft-ms"))
        c->ttft_ms = (uint32_t)number;
    else if (bytes_is(n, "gap-ms"))
        c->gap_ms = (uint32_t)number;
    else if (bytes_is(n, "tokens"))
        c->tokens = (int64_t)number;
    else
        return false;
    return true;
}

static bool add_provider(struct setup *s, const char *spec)
{
    if (s->n == PROVIDERS_MAX || strlen(spec) >= SPEC_BYTES_MAX)
        return false;
    struct mock_conf *c = &s->v[s->n];
    char *rest = s->specs[s->n], *listen = s->listens[s->n];
    *c = s->base;
    memcpy(rest, spec, strlen(spec) + 1);
    for (char *item; (item = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(item, '=');
        if (value != NULL)
            *value++ = '\0';
        if (strcmp(item, "port") == 0 && value != NULL) {
            snprintf(listen, sizeof s->listens[0], "127.0.0.1:%s", value);
            c->listen = listen;
        } else if (!set_one(c, item, value != NULL ? value : "", '+')) {
            return false;
        }
    }
    s->n++;
    return true;
}

static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
                                        {"dialect", required_argument, NULL, 'l'},
                                        {"model", required_argument, NULL, 'l'},
                                        {"ttft-ms", required_argument, NULL, 'l'},
                                        {"gap-ms", required_argument, NULL, 'l'},
                                        {"tokens", required_argument, NULL, 'l'},
                                        {"words", required_argument, NULL, 'l'},
                                        {"fault", required_argument, NULL, 'l'},
                                        {"no-usage", no_argument, NULL, 'l'},
                                        {"key", required_argument, NULL, 'l'},
                                        {"provider", required_argument, NULL, 'p'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

/* 0 = go on; else the exit code + 1. Plain options count for every provider, wherever they stand: two rounds. */
static int read_options(int argc, char **argv, struct setup *s)
{
    int o, at = 0;
    for (int round = 0; round < 2; round++) {
        optind = 0;
        while ((o = getopt_long(argc, argv, "h", options, &at)) != -1) {
            if (o == 'h') {
                usage(stdout);
                return 1;
            }
            bool ok = o == 'l'   ? round == 1 || set_one(&s->base, options[at].name, optarg ? optarg : "", ',')
                      : o == 'p' ? round == 0 || add_provider(s, optarg)
                                 : false;
            if (!ok) {
                if (o == 'l' || o == 'p')
                    fprintf(stderr, "ringmain mock: --%s: '%s' is not understood\n", options[at].name, optarg);
                usage(stderr);
                return 3;
            }
        }
    }
    if (optind < argc) {
        usage(stderr);
        return 3;
    }
    if (s->n == 0)
        s->v[s->n++] = s->base;
    return 0;
}

struct stopper {
    struct watch watch;
    struct loop *loop;
};

static void on_signal(struct watch *w, unsigned ready)
{
    struct stopper *s = RM_CONTAINER(w, struct stopper, watch);
    struct signalfd_siginfo info;
    if (read(w->fd, &info, sizeof info) > 0)
        loop_stop(s->loop);
}

static bool start(struct mock *m, const struct setup *s)
{
    for (size_t i = 0; i < s->n; i++) {
        char message[200] = "";
        uint16_t port;
        if (mock_add(m, &s->v[i], &port, message, sizeof message) != ERR_OK) {
            fprintf(stderr, "ringmain mock: %s: %s\n", s->v[i].listen, message);
            return false;
        }
        printf("%s on port %u\n", s->v[i].dialect == SHAPE_OPENAI ? "openai" : "anthropic", port);
    }
    fflush(stdout);
    return true;
}

static int run(const struct setup *s)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    struct stopper stopper = {.loop = loop_new()};
    stopper.watch =
        (struct watch){.fn = on_signal, .fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), .is_level = true};
    struct mock *m = mock_new(stopper.loop);
    int code = 1;
    if (stopper.watch.fd >= 0 && watch_add(stopper.loop, &stopper.watch) == ERR_OK) {
        if (start(m, s)) {
            loop_run(stopper.loop);
            code = 0;
        }
        watch_del(stopper.loop, &stopper.watch);
    }
    mock_free(m);
    loop_free(stopper.loop);
    if (stopper.watch.fd >= 0)
        close(stopper.watch.fd);
    return code;
}

int cmd_mock(int argc, char **argv)
{
    static struct setup s; /* too large for the stack; used once */
    mock_conf_init(&s.base);
    int done = read_options(argc, argv, &s);
    return done != 0 ? done - 1 : run(&s);
}
