/* ringmain check: all faults of a configuration at once, and what it would serve. */
#include "base/buf.h"
#include "cmd/check_price.h"
#include "cmd/cmd.h"
#include "cmd/load.h"
#include "codec/json_write.h"
#include "price/price.h"
#include "serve/descriptors.h"

#include <getopt.h>
#include <stdio.h>

enum { ROUTES_SHOWN = 12, LINKS_SHOWN = 8 };

struct check_options {
    const char *path;
    bool is_json;
};

static void usage(FILE *to)
{
    fputs("usage: ringmain check [-c FILE] [--json]\n"
          "\n"
          "Reads a configuration as `serve` would and tells every fault at once, with line and column.\n"
          "\n"
          "  -c, --config FILE    configuration (default ringmain.yaml)\n"
          "  --json               faults and routes as one JSON object\n"
          "  -h, --help           this text\n"
          "\n"
          "Exit code: 0 fine (there may be warnings), 1 errors, 2 usage. The limit of open files is that of the shell\n"
          "in which this runs; a service may have another.\n",
          to);
}

/* ---- for people ---- */

static void put_link(struct buf *out, const struct link_conf *link, int64_t wall_ms, bool is_last)
{
    buf_printf(out, "    %u. %s/%s", (unsigned)link->index + 1, link->provider->name, link->model);
    if (link->provider->is_off)
        buf_printf(out, "  off (%s is not set)", link->provider->off_variable);
    else if (is_last)
        buf_puts(out, "  until the deadline");
    else if (link->is_auto_budget)
        buf_printf(out, "  first token within auto (%u ms at first)", link->ttft_budget_ms);
    else
        buf_printf(out, "  first token within %u ms", link->ttft_budget_ms);
    buf_puts(out, ", ");
    check_price_text(out, link, wall_ms);
    buf_putc(out, '\n');
}

/* What hedging may be expected to cost: one request in twenty is later than p95, and then a second attempt is paid. */
static void put_hedge(struct buf *out, const struct route_conf *r)
{
    const struct hedge_conf *h = &r->hedge;
    const struct usage typical = {.input = 4000, .output = 1000};
    if (!h->is_on || r->n_links < 2)
        return;
    buf_puts(out, "    hedge after ");
    if (h->after_ms == 0)
        buf_puts(out, "p95");
    else
        buf_printf(out, "%u ms", h->after_ms);
    const struct price *first = r->links[0].price, *second = r->links[1].price;
    int64_t one = first ? price_cost(first, &typical) : NUSD_UNKNOWN;
    int64_t two = second ? price_cost(second, &typical) : NUSD_UNKNOWN;
    if (h->after_ms == 0 && one > 0 && two >= 0) {
        uint64_t permyriad = (uint64_t)two * 500 / (uint64_t)one;
        permyriad = permyriad > h->max_extra_permyriad ? h->max_extra_permyriad : permyriad;
        buf_printf(out, ": about %llu.%02llu%% more is to be expected (4,000 tokens in, 1,000 out)",
                   (unsigned long long)(permyriad / 100), (unsigned long long)(permyriad % 100));
    } else {
        buf_puts(out, ": what it will cost is not known beforehand");
    }
    buf_printf(out, "; it stops at %u.%02u%% of what the route spends and at %u a minute\n",
               h->max_extra_permyriad / 100, h->max_extra_permyriad % 100, h->max_per_minute);
}

static void put_route(struct buf *out, const struct route_conf *r, int64_t wall_ms)
{
    buf_printf(out, "  %s  (deadline %u ms", r->model, r->deadline_ms);
    if (r->keepalive_sec > 0)
        buf_printf(out, ", standbys kept warm every %u s", r->keepalive_sec);
    buf_puts(out, r->breaker.is_off ? ", breaker off)\n" : ")\n");
    put_hedge(out, r);
    for (size_t i = 0; i < r->n_links && i < LINKS_SHOWN; i++)
        put_link(out, &r->links[i], wall_ms, i + 1 == r->n_links);
    if (r->n_links > LINKS_SHOWN)
        buf_printf(out, "    and %zu more links\n", r->n_links - LINKS_SHOWN);
}

static void put_descriptors(struct buf *out, const struct config *c, const struct descriptors *d)
{
    unsigned long long limit = d->limit, needed = d->needed, wanted = c->limits.connections;
    if (limit == UINT64_MAX)
        buf_puts(out, "\nfiles    as many as wanted may be open");
    else
        buf_printf(out, "\nfiles    %llu may be open", limit);
    if (descriptors_are_short(d))
        buf_printf(out, ": enough for %llu client connections at once, limits.connections = %llu would need %llu",
                   (unsigned long long)d->connections, wanted, needed);
}

static void put_summary(struct buf *out, const struct config *c, const struct check_options *o, size_t n_warnings,
                        const struct descriptors *d)
{
    buf_printf(out, "%s: fine", o->path);
    if (n_warnings > 0)
        buf_printf(out, ", %zu warning%s", n_warnings, n_warnings == 1 ? "" : "s");
    buf_printf(out, "\n\nlisten   %s, ", c->listen);
    if (c->n_keys == 0)
        buf_puts(out, "no client keys");
    else
        buf_printf(out, "%zu client key%s", c->n_keys, c->n_keys == 1 ? "" : "s");
    buf_printf(out, "\nadmin    %s\nledger   %s\nworkers  %u", c->admin_listen[0] != '\0' ? c->admin_listen : "off",
               c->ledger[0] != '\0' ? c->ledger : "off", c->workers);
    put_descriptors(out, c, d);
    buf_printf(out, "\n\n%zu route%s\n", c->n_routes, c->n_routes == 1 ? "" : "s");
    for (size_t i = 0; i < c->n_routes && i < ROUTES_SHOWN; i++)
        put_route(out, &c->routes[i], c->loaded_wall_ms);
    if (c->n_routes > ROUTES_SHOWN)
        buf_printf(out, "  and %zu more\n", c->n_routes - ROUTES_SHOWN);
}

static bool can_start(const struct config *c, const struct descriptors *d)
{
    return c != NULL && descriptors_can_start(d);
}

/* ---- for programs ---- */

static void write_descriptors(struct json_writer *w, const struct config *c, const struct descriptors *d)
{
    jw_key(w, "descriptors");
    if (c == NULL) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_key(w, "limit");
    jw_uint(w, d->limit);
    jw_key(w, "needed");
    jw_uint(w, d->needed);
    jw_key(w, "least");
    jw_uint(w, d->least);
    jw_key(w, "connections");
    jw_uint(w, d->connections);
    jw_end(w);
}

static void write_faults(struct json_writer *w, const struct config_faults *f)
{
    jw_key(w, "faults");
    jw_array(w);
    for (size_t i = 0; i < f->n; i++) {
        const struct config_fault *x = &f->v[i];
        jw_object(w);
        jw_key(w, "severity");
        jw_cstr(w, x->is_warning ? "warning" : "error");
        jw_key(w, "file");
        jw_cstr(w, x->file);
        jw_key(w, "line");
        jw_uint(w, x->line);
        jw_key(w, "column");
        jw_uint(w, x->column);
        jw_key(w, "message");
        jw_cstr(w, x->message);
        jw_end(w);
    }
    jw_end(w);
}

static void write_link(struct json_writer *w, const struct link_conf *link, int64_t wall_ms)
{
    jw_object(w);
    jw_key(w, "provider");
    jw_cstr(w, link->provider->name);
    jw_key(w, "model");
    jw_cstr(w, link->model);
    jw_key(w, "off");
    jw_bool(w, link->provider->is_off);
    jw_key(w, "ttft_budget_ms");
    jw_uint(w, link->ttft_budget_ms);
    jw_key(w, "ttft_budget_auto");
    jw_bool(w, link->is_auto_budget);
    jw_key(w, "price");
    check_price_json(w, link, wall_ms);
    jw_end(w);
}

static void write_routes(struct json_writer *w, const struct config *c)
{
    jw_key(w, "routes");
    jw_array(w);
    for (size_t i = 0; c != NULL && i < c->n_routes; i++) {
        jw_object(w);
        jw_key(w, "model");
        jw_cstr(w, c->routes[i].model);
        jw_key(w, "links");
        jw_array(w);
        for (size_t k = 0; k < c->routes[i].n_links; k++)
            write_link(w, &c->routes[i].links[k], c->loaded_wall_ms);
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
}

static void put_json(struct buf *out, const struct config *c, const struct check_options *o,
                     const struct config_faults *f, const struct descriptors *d)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "file");
    jw_cstr(&w, o->path);
    jw_key(&w, "ok");
    jw_bool(&w, can_start(c, d));
    jw_key(&w, "errors");
    jw_uint(&w, f->n_errors + (c != NULL && !can_start(c, d)));
    jw_key(&w, "warnings");
    jw_uint(&w, f->n - (f->n_errors < f->n ? f->n_errors : f->n));
    write_faults(&w, f);
    write_routes(&w, c);
    write_descriptors(&w, c, d);
    jw_end(&w);
    buf_putc(out, '\n');
}

/* ---- */

static void put_verdict(struct buf *out, struct buf *told, const struct config *c, const struct check_options *o,
                        const struct config_faults *f, const struct descriptors *d)
{
    char message[256];
    if (c == NULL) {
        buf_printf(told, "%s: %zu error%s\n", o->path, f->n_errors, f->n_errors == 1 ? "" : "s");
    } else if (can_start(c, d)) {
        put_summary(out, c, o, f->n, d);
    } else {
        descriptors_tell(d, c, message, sizeof message);
        buf_printf(told, "%s: error: %s\n", o->path, message);
    }
}

/* 0 = go on; else the exit code + 1. */
static int read_options(int argc, char **argv, struct check_options *o)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        if (option == 'c') {
            o->path = optarg;
        } else if (option == 'j') {
            o->is_json = true;
        } else {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 1 : 3;
        }
    }
    if (optind < argc) {
        usage(stderr);
        return 3;
    }
    return 0;
}

int cmd_check(int argc, char **argv)
{
    struct check_options o = {.path = "ringmain.yaml"};
    int stop = read_options(argc, argv, &o);
    if (stop != 0)
        return stop - 1;
    struct config *c = NULL;
    struct config_faults faults = {0};
    struct buf out = {0}, told = {0};
    enum err err = config_load_file(o.path, &faults, &c);
    struct descriptors d = {0};
    if (err == ERR_OK)
        d = descriptors_of(c, descriptors_raise(), descriptors_open());
    if (o.is_json) {
        put_json(&out, c, &o, &faults, &d);
    } else {
        config_faults_text(&faults, &told);
        put_verdict(&out, &told, c, &o, &faults, &d);
    }
    fputs(buf_cstr(&told), stderr);
    fputs(buf_cstr(&out), stdout);
    buf_fini(&told);
    buf_fini(&out);
    config_faults_fini(&faults);
    bool is_fine = can_start(c, &d);
    config_unref(c);
    return is_fine ? 0 : 1;
}
