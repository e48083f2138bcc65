/* ringmain mock: pretend providers that fail on purpose. */
#include "lab/mock.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/tool.h"
#include "config/fault.h"
#include "lab/mock_yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { SPEC_BYTES_MAX = 1024, FB_SPEED_MAX = 1000, FILE_BYTES_MAX = 4 << 20, READ_BYTES = 65536 };

struct setup {
    struct arena arena;
    struct mock_conf base; /* from the plain options */
    struct mock_conf v[MOCK_PROVIDERS_MAX];
    char specs[MOCK_PROVIDERS_MAX][SPEC_BYTES_MAX]; /* texts of v point into them */
    size_t n;
    const char *file;            /* of -c; NULL = none */
    bool has_plain;              /* an option that a file would say */
    bool has_seed, has_fb_speed; /* these two go over the file's */
};

static void usage(FILE *to)
{
    fputs("usage: ringmain mock -c FILE [--seed N] [--fb-speed N]\n"
          "       ringmain mock [options] [--provider NAME=VALUE,…]…\n\n"
          "Pretends to be providers: streams words in their dialects, counts tokens, and fails as it is told.\n\n"
          "  -c, --config FILE          any number of providers, each with its own pace, cache, limits and faults, as\n"
          "                             YAML (docs/mock.md)\n"
          "  --seed N                   what is drawn by chance is the same under the same seed (1)\n"
          "  --fb-speed N               divides the times of the models fb-ok, fb-s01-… to fb-s16-… (1)\n\n"
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
          "  --name NAME                in the log\n"
          "  --provider port=N,…        one more provider, with the same names; what is not given is as above\n"
          "  -h, --help                 this text\n\nFaults: ",
          to);
    fputs(fault_words(), to);
    fputs("\n  A number after a colon: cut:5 (after five words), 429:2 (retry-after 2 s), slow:800 (first token after "
          "800 ms),\n  stall:5:2000 (after five words, for 2 s).\n\nWhile it runs, on each provider's port:\n"
          "  POST /_mock/fault {\"fault\":\"429\",\"times\":1,\"retry_after\":2,\"after\":3,\"ttft_ms\":800,"
          "\"for_ms\":500,\n"
          "       \"bytes\":9,\"probability\":0.05,\"from_s\":10,\"to_s\":40,\"requests\":[1,\"5-9\"],\"model\":\"m\","
          "\n       \"provider\":PORT or \"NAME\"}, or {\"faults\":[…]}: these rows hold from now on\n"
          "  POST /_mock/reset          as after the start: its own faults, empty log and cache, numbers from 1\n"
          "  GET  /_mock/log[?after=N]  the requests seen, as JSON: the last 1024\n"
          "  GET  /_mock/state          how many there were, and how many are no longer in the log\n"
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

/* One setting; value is NUL-terminated and outlives c. In a --provider list the faults are separated by +. */
static bool set_one(struct mock_conf *c, const char *name, const char *value, char separator)
{
    struct bytes n = bytes_of(name), v = bytes_of(value);
    uint64_t number = 0;
    if (bytes_is(n, "listen"))
        c->listen = value;
    else if (bytes_is(n, "name"))
        c->name = value;
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
        return mock_conf_faults(c, value, separator);
    else if (!set_number(v, 10000000, &number))
        return false;
    else if (bytes_is(n, "ttft-ms"))
        c->ttft_ms = spread_fixed(number);
    else if (bytes_is(n, "gap-ms"))
        c->gap_us = number * 1000;
    else if (bytes_is(n, "tokens"))
        c->tokens = spread_fixed(number);
    else if (bytes_is(n, "fb-speed") && number >= 1 && number <= FB_SPEED_MAX)
        c->fb_speed = (unsigned)number;
    else if (bytes_is(n, "seed"))
        c->seed = number;
    else
        return false;
    return true;
}

static bool add_provider(struct setup *s, const char *spec)
{
    if (s->n == MOCK_PROVIDERS_MAX || strlen(spec) >= SPEC_BYTES_MAX)
        return false;
    struct mock_conf *c = &s->v[s->n];
    char *rest = s->specs[s->n];
    *c = s->base;
    memcpy(rest, spec, strlen(spec) + 1);
    for (char *item; (item = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(item, '=');
        if (value != NULL)
            *value++ = '\0';
        if (strcmp(item, "port") == 0 && value != NULL) {
            c->listen = arena_printf(&s->arena, "127.0.0.1:%s", value).p;
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
                                        {"name", required_argument, NULL, 'l'},
                                        {"seed", required_argument, NULL, 'l'},
                                        {"fb-speed", required_argument, NULL, 'l'},
                                        {"provider", required_argument, NULL, 'p'},
                                        {"config", required_argument, NULL, 'c'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static bool take_plain(struct setup *s, const char *name, const char *value)
{
    bool is_seed = strcmp(name, "seed") == 0, is_speed = strcmp(name, "fb-speed") == 0;
    s->has_seed |= is_seed;
    s->has_fb_speed |= is_speed;
    s->has_plain |= !is_seed && !is_speed;
    return set_one(&s->base, name, value, ',');
}

/* Plain options count for every provider, wherever they stand: two rounds. */
static bool take_option(struct setup *s, int o, int round, const char *name, const char *value)
{
    if (o == 'c')
        s->file = value;
    else if (o == 'l')
        return round == 1 || take_plain(s, name, value);
    else if (o == 'p')
        return round == 0 || add_provider(s, value);
    return o == 'c';
}

/* One line, not the whole of --help: what was wrong shall still be on the screen. NULL = it was told already. */
static int wrong(const char *message)
{
    if (message != NULL)
        fprintf(stderr, "ringmain mock: %s\n", message);
    fputs("ringmain mock --help tells the options and faults\n", stderr);
    return 3;
}

static void tell_unknown(const char *option, const char *value)
{
    struct fault faults[FAULT_LIST_MAX];
    size_t n;
    struct bytes bad = {0};
    const char *near = NULL;
    if (strcmp(option, "fault") == 0 && !fault_parse_list(bytes_of(value), faults, &n, &bad))
        near = fault_nearest(bytes_cut(&bad, ':'), fault_names());
    fprintf(stderr, "ringmain mock: --%s: '%s' is not understood", option, value);
    fprintf(stderr, near != NULL ? "; did you mean %s?\n" : "\n", near);
}

/* 0 = go on; else the exit code + 1. */
static int read_options(int argc, char **argv, struct setup *s)
{
    int o, at = 0;
    for (int round = 0; round < 2; round++) {
        optind = 0;
        while ((o = getopt_long(argc, argv, "hc:", options, &at)) != -1) {
            if (o == 'h') {
                usage(stdout);
                return 1;
            }
            if (take_option(s, o, round, options[at].name, optarg ? optarg : ""))
                continue;
            if (o == 'l' || o == 'p')
                tell_unknown(options[at].name, optarg);
            return wrong(NULL);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "ringmain mock: '%s' is too much\n", argv[optind]);
        return wrong(NULL);
    }
    if (s->file != NULL && (s->has_plain || s->n > 0))
        return wrong("with -c FILE the file says everything; only --seed and --fb-speed may stand beside it");
    if (s->file == NULL && s->n == 0)
        s->v[s->n++] = s->base;
    return 0;
}

static bool read_file(const char *path, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 1;
    out->max = FILE_BYTES_MAX + READ_BYTES;
    while (fd >= 0 && n > 0 && out->n <= FILE_BYTES_MAX) {
        n = read(fd, buf_reserve(out, READ_BYTES), READ_BYTES);
        if (n > 0)
            buf_grew(out, (size_t)n);
    }
    if (fd < 0 || n < 0) {
        fprintf(stderr, "ringmain mock: %s: %s\n", path, strerror(errno));
        n = -1;
    }
    if (fd >= 0)
        close(fd);
    return n >= 0;
}

static bool load_file(struct setup *s)
{
    struct buf text = {0}, told = {0};
    struct mock_file file = {0};
    bool ok = read_file(s->file, &text);
    if (ok && !mock_yaml_parse(buf_bytes(&text), s->file, &s->arena, &file, &told)) {
        fputs(buf_cstr(&told), stderr);
        ok = false;
    }
    for (size_t i = 0; ok && i < file.n; i++) {
        s->v[s->n++] = file.v[i];
        if (s->has_seed)
            s->v[i].seed = s->base.seed;
        if (s->has_fb_speed)
            s->v[i].fb_speed = s->base.fb_speed;
    }
    buf_fini(&told);
    buf_fini(&text);
    return ok;
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
            fprintf(stderr, "ringmain mock: %s%s%s: %s\n", s->v[i].name, *s->v[i].name != '\0' ? ": " : "",
                    s->v[i].listen, message);
            return false;
        }
        printf("%s%s%s on port %u\n", s->v[i].name, *s->v[i].name != '\0' ? ": " : "",
               s->v[i].dialect == SHAPE_OPENAI ? "openai" : "anthropic", port);
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
    struct stopper stopper = {.loop = tool_loop("mock")};
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
    struct setup *s = mem_zalloc(sizeof *s);
    mock_conf_init(&s->base);
    int code = read_options(argc, argv, s) - 1;
    if (code < 0)
        code = s->file != NULL && !load_file(s) ? 1 : run(s);
    arena_fini(&s->arena);
    mem_free(s);
    return code;
}
