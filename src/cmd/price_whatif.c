/* ringmain price what-if: the ledger's own requests under another policy. Reads what was recorded (never a prompt: the
 * ledger has none), plays it twice through the real engine, and prints both beside what happened: once under the
 * present policy, which shows how far off the method is, and once under the one that is asked about. */
#include "cmd/price_whatif.h"

#include "base/mem.h"
#include "cmd/ledger.h"
#include "cmd/load.h"
#include "cmd/price.h"
#include "ledger/keepalives.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 500 };
enum option_name { O_POLICY = 256, O_SET, O_DB, O_SINCE, O_ROUTE, O_SEED, O_JSON };

struct asked {
    const char *config, *policy, *db, *since, *route;
    const char *sets[WHATIF_SETS_MAX];
    size_t n_sets;
    uint64_t seed;
    bool is_json;
};

static void usage(FILE *to)
{
    struct buf names = {0};
    policy_help(&names);
    fprintf(to,
            "usage: ringmain price what-if [-c FILE] [--route MODEL] [--set NAME=VALUE ...] [options]\n"
            "\n"
            "Plays the requests of the ledger again, through the real engine, under another policy.\n"
            "\n"
            "  -c, --config FILE    the present policy, prices and ledger (default ringmain.yaml)\n"
            "  --set NAME=VALUE     a setting to try; as often as needed, in this order. For one link: link.2.NAME\n"
            "  --policy FILE        another configuration to try, whole; --set then changes that one\n"
            "  --route MODEL        the route; not needed where there is only one\n"
            "  --db FILE            another ledger\n"
            "  --since WHEN         what came since: 30m, 24h, 7d, or a time (default 7d)\n"
            "  --seed N             of all that is drawn (default 1): the same again gives the same figures\n"
            "  --json               the same as one JSON object\n"
            "  -h, --help           this text\n"
            "\n"
            "At most %d requests are kept; of more, whole minutes are left out by chance.\n"
            "Without --set and --policy only the present policy is played, to show the error of the method.\n"
            "\n"
            "settings:\n%s",
            WHATIF_REQUESTS_MAX, buf_cstr(&names));
    buf_fini(&names);
}

static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                        {"policy", required_argument, NULL, O_POLICY},
                                        {"set", required_argument, NULL, O_SET},
                                        {"db", required_argument, NULL, O_DB},
                                        {"since", required_argument, NULL, O_SINCE},
                                        {"route", required_argument, NULL, O_ROUTE},
                                        {"seed", required_argument, NULL, O_SEED},
                                        {"json", no_argument, NULL, O_JSON},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static int complain(const char *what)
{
    fprintf(stderr, "ringmain price what-if: %s\n", what);
    return 2;
}

static int set_option(struct asked *a, int o, const char *value)
{
    switch (o) {
    case 'c':
        a->config = value;
        return 0;
    case O_POLICY:
        a->policy = value;
        return 0;
    case O_DB:
        a->db = value;
        return 0;
    case O_SINCE:
        a->since = value;
        return 0;
    case O_ROUTE:
        a->route = value;
        return 0;
    case O_JSON:
        a->is_json = true;
        return 0;
    case O_SEED:
        return bytes_to_u64(bytes_of(value), &a->seed) ? 0 : complain("--seed takes a whole number");
    case O_SET:
        if (a->n_sets == WHATIF_SETS_MAX)
            return complain("too many --set");
        a->sets[a->n_sets++] = value;
        return 0;
    default:
        usage(stderr);
        return 2;
    }
}

/* ---- progress ---- */

struct progress {
    bool is_shown;
    const char *what;
};

static void show_progress(void *arg, size_t n_done, size_t n)
{
    const struct progress *p = arg;
    if (!p->is_shown)
        return;
    if (n > 0)
        fprintf(stderr, "\r\033[K%s: %zu of %zu requests", p->what, n_done, n);
    else
        fprintf(stderr, "\r\033[K%s: %zu requests", p->what, n_done);
    fflush(stderr);
}

static void end_progress(const struct progress *p)
{
    if (p->is_shown)
        fputs("\r\033[K", stderr);
}

/* ---- reading ---- */

static enum err read_past(struct ledger_reader *reader, const char *route, int64_t since_ms, struct past *past)
{
    struct request_record *page = mem_alloc(PAGE * sizeof *page);
    struct progress progress = {isatty(2) == 1, "reading the ledger"};
    uint64_t after = since_ms > 0 ? reader_id_at(since_ms) : 0, before = 0;
    unsigned n = PAGE;
    enum err e = ERR_OK;
    while (e == ERR_OK && n == PAGE) {
        struct arena arena = {0};
        e = reader_list(reader, PAGE, after, before, &arena, page, &n);
        for (unsigned i = 0; e == ERR_OK && i < n; i++) {
            before = page[i].id;
            if (page[i].route != NULL && strcmp(page[i].route, route) == 0)
                past_add(past, &page[i]);
        }
        arena_fini(&arena);
        show_progress(&progress, past_n_seen(past), 0);
    }
    end_progress(&progress);
    mem_free(page);
    return e;
}

struct hearing {
    struct whatif *w;
    struct past *past;
};

static bool has_link(const struct route_conf *route, const struct keepalive *k)
{
    for (size_t i = 0; i < route->n_links; i++)
        if (strcmp(route->links[i].provider->name, k->provider) == 0 && strcmp(route->links[i].model, k->model) == 0)
            return true;
    return false;
}

static void hear_keepalive(void *arg, const struct keepalive *k)
{
    struct hearing *h = arg;
    if (!has_link(&h->w->present.route, k))
        return;
    past_add_sign(h->past, k->provider, k->model, k->started_wall_ms, k->outcome);
    h->w->n_keepalives++;
    h->w->keepalive_nusd += k->cost_nusd == NUSD_UNKNOWN ? 0 : k->cost_nusd;
}

static enum err read_all(struct whatif *w, struct ledger_reader *reader, struct past *past)
{
    enum err e = read_past(reader, w->present.route.model, w->since_ms, past);
    struct hearing h = {w, past};
    if (e == ERR_OK)
        e = keepalives_read(reader, w->since_ms > 0 ? reader_id_at(w->since_ms) : 0, hear_keepalive, &h);
    past_seal(past);
    return e;
}

/* ---- the two replays ---- */

static int play(struct whatif *w, struct policy *policy, const char *what, struct replay_result *out)
{
    struct progress progress = {isatty(2) == 1, what};
    struct replay_ask ask = {.past = w->past,
                             .config = &policy->config,
                             .route = &policy->route,
                             .seed = w->seed,
                             .tick = show_progress,
                             .arg = &progress};
    enum err e = replay_run(&ask, out);
    end_progress(&progress);
    if (e == ERR_OK)
        return 0;
    fprintf(stderr, "ringmain price what-if: %s\n", err_text(e));
    return 1;
}

static int play_both(struct whatif *w, bool is_json)
{
    replay_recorded(w->past, &w->recorded);
    int code = play(w, &w->present, "the present policy", &w->replayed);
    if (code == 0 && w->has_other)
        code = play(w, &w->other, "the other policy", &w->tried);
    if (code == 0)
        whatif_print(w, is_json);
    return code;
}

static int read_and_play(struct whatif *w, const struct asked *a, struct ledger_reader *reader)
{
    const char *route = w->present.route.model;
    if (!ledger_since(reader, a->since, &w->since_ms))
        return complain("--since takes 30m, 24h, 7d or a time like 2026-11-30T07:00:00Z");
    struct past *past = past_new(WHATIF_REQUESTS_MAX, a->seed);
    int code = 1;
    w->past = past;
    if (read_all(w, reader, past) != ERR_OK)
        fprintf(stderr, "ringmain price what-if: %s: %s\n", w->ledger, reader_error(reader));
    else if (past_n(past) == 0)
        fprintf(stderr, "ringmain price what-if: %s has no request of route %s since %s\n", w->ledger, route, a->since);
    else
        code = play_both(w, a->is_json);
    past_free(past);
    return code;
}

/* ---- policies ---- */

static bool load(const char *path, struct config **out)
{
    struct config_faults faults = {0};
    bool ok = config_load_file(path, &faults, out) == ERR_OK;
    if (!ok) {
        struct buf text = {0};
        config_faults_text(&faults, &text);
        fputs(buf_cstr(&text), stderr);
        buf_fini(&text);
    }
    config_faults_fini(&faults);
    return ok;
}

static const struct route_conf *choose_route(const struct config *c, const char *file, const char *name)
{
    const struct route_conf *route = NULL;
    if (name != NULL)
        route = config_route(c, bytes_of(name));
    else if (c->n_routes == 1)
        route = &c->routes[0];
    if (route != NULL)
        return route;
    if (name != NULL)
        fprintf(stderr, "ringmain price what-if: %s has no route '%s'; it has:", file, name);
    else
        fprintf(stderr, "ringmain price what-if: which route of %s? --route takes one of:", file);
    for (size_t i = 0; i < c->n_routes; i++)
        fprintf(stderr, " %s", c->routes[i].model);
    fputc('\n', stderr);
    return NULL;
}

static bool apply(struct policy *p, const struct asked *a)
{
    for (size_t i = 0; i < a->n_sets; i++) {
        struct buf why = {0};
        bool ok = policy_set(p, a->sets[i], &why);
        if (!ok)
            fprintf(stderr, "ringmain price what-if: --set %s: %s\n", a->sets[i], buf_cstr(&why));
        buf_fini(&why);
        if (!ok)
            return false;
    }
    return true;
}

static int with_policies(struct whatif *w, const struct asked *a, struct config *present, struct config *other)
{
    const struct route_conf *now = choose_route(present, a->config, a->route);
    const struct route_conf *then = now;
    char message[400] = "";
    struct ledger_reader *reader = NULL;
    if (now != NULL && other != present)
        then = choose_route(other, a->policy, now->model);
    if (now == NULL || then == NULL)
        return 1;
    policy_init(&w->present, present, now);
    policy_init(&w->other, other, then);
    w->has_other = a->n_sets > 0 || other != present;
    if (!apply(&w->other, a))
        return 2;
    w->ledger = a->db != NULL ? a->db : present->ledger;
    if (w->ledger[0] == '\0') {
        fprintf(stderr, "ringmain price what-if: the ledger is off in %s; --db names another\n", a->config);
        return 1;
    }
    if (ledger_reader_open(w->ledger, &reader, message, sizeof message) != ERR_OK) {
        fprintf(stderr, "ringmain price what-if: %s\n", message);
        return 1;
    }
    int code = read_and_play(w, a, reader);
    ledger_reader_close(reader);
    return code;
}

int price_whatif(int argc, char **argv)
{
    struct asked a = {.config = "ringmain.yaml", .since = "7d", .seed = 1};
    int o, code;
    while ((o = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        if (o == 'h') {
            usage(stdout);
            return 0;
        }
        code = set_option(&a, o, optarg);
        if (code != 0)
            return code;
    }
    if (optind != argc) {
        usage(stderr);
        return 2;
    }
    struct config *present = NULL, *other = NULL;
    struct whatif *w = mem_zalloc(sizeof *w);
    w->seed = a.seed;
    w->policy_file = a.policy;
    w->n_sets = a.n_sets;
    memcpy(w->sets, a.sets, sizeof a.sets);
    code = 1;
    if (load(a.config, &present) && (a.policy == NULL || load(a.policy, &other)))
        code = with_policies(w, &a, present, other != NULL ? other : present);
    config_unref(other);
    config_unref(present);
    mem_free(w);
    return code;
}
