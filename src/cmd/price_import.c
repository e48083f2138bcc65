/* ringmain price import: LiteLLM's catalogue becomes a price book of our own form. The file is written beside its place
 * and moved there, so that a gateway that loads it never sees half of it. */
#include "base/text.h"
#include "cmd/load.h"
#include "cmd/price.h"
#include "codec/json_write.h"
#include "price/litellm.h"
#include "price/price.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

enum { CATALOGUE_BYTES_MAX = 64 << 20 };

struct asked {
    const char *file, *out, *valid_from;
    bool is_json;
};

static void usage(FILE *to)
{
    fputs(
        "usage: ringmain price import FILE [-o OUT] [--valid-from DAY] [--json]\n\n"
        "Reads LiteLLM's model_prices_and_context_window.json and writes it as a price book, for `price_file` of the\n"
        "configuration. What could not be used is told.\n\n"
        "  FILE               the catalogue; - is standard input\n"
        "  -o, --output OUT   where the book goes (default: standard output, and the report to standard error)\n"
        "  --valid-from DAY   the first day on which these prices hold, as 2026-07-18 (default: always)\n"
        "  --json             the report as one JSON object; needs -o\n"
        "  -h, --help         this text\n",
        to);
}

/* ---- the report ---- */

static void put_tallies(struct buf *b, const char *head, const struct litellm_tallies *t, bool has_example)
{
    if (t->n == 0)
        return;
    buf_puts(b, head);
    for (size_t i = 0; i < t->n; i++) {
        const struct litellm_tally *v = &t->v[i];
        buf_printf(b, "%s %.*s (%zu", i > 0 ? "," : "", (int)v->word.n, v->word.p, v->n);
        if (has_example)
            buf_printf(b, ", first in %.*s", (int)v->example.n, v->example.p);
        buf_putc(b, ')');
    }
    buf_putc(b, '\n');
}

static void put_notes(struct buf *b, const struct litellm_report *r)
{
    size_t kept = r->n_notes < LITELLM_NOTES_MAX ? r->n_notes : LITELLM_NOTES_MAX;
    if (r->n_notes > 0)
        buf_printf(b, "values refused or changed: %zu\n", r->n_notes);
    for (size_t i = 0; i < kept; i++) {
        const struct litellm_note *n = &r->notes[i];
        buf_printf(b, "  %.*s: %.*s%s%s\n", (int)n->model.n, n->model.p, (int)n->member.n, n->member.p,
                   n->member.n > 0 ? " " : "", n->why);
    }
    if (kept < r->n_notes)
        buf_printf(b, "  and %zu more\n", r->n_notes - kept);
}

static void report_text(const struct litellm_report *r, struct buf *b)
{
    buf_printf(b, "%zu models: %zu with a price, %zu further prices of services, %zu tiers\n", r->n_models,
               r->n_written, r->n_services, r->n_tiers);
    if (r->n_unpriced > 0)
        buf_printf(b, "without any rate, so their price is unknown (not free): %zu\n", r->n_unpriced);
    put_tallies(b, "left out, not billed by tokens of text:", &r->modes, false);
    put_tallies(b, "understood, and of no use for text:", &r->unused, false);
    put_tallies(b, "not understood:", &r->strange, true);
    put_notes(b, r);
    for (size_t i = 0; i < b->n; i++) /* a foreign text on a terminal */
        if (((unsigned char)b->p[i] < 0x20 && b->p[i] != '\n') || b->p[i] == 0x7f)
            b->p[i] = '?';
}

static void tallies_json(struct json_writer *w, const char *name, const struct litellm_tallies *t)
{
    jw_key(w, name);
    jw_array(w);
    for (size_t i = 0; i < t->n; i++) {
        jw_object(w);
        jw_key(w, "word");
        jw_string(w, t->v[i].word);
        jw_named_uint(w, "n", t->v[i].n);
        jw_key(w, "first_in");
        jw_string(w, t->v[i].example);
        jw_end(w);
    }
    jw_end(w);
}

static void report_json(const struct litellm_report *r, struct buf *b)
{
    struct json_writer w;
    jw_init(&w, b);
    jw_object(&w);
    jw_named_uint(&w, "models", r->n_models);
    jw_named_uint(&w, "written", r->n_written);
    jw_named_uint(&w, "services", r->n_services);
    jw_named_uint(&w, "tiers", r->n_tiers);
    jw_named_uint(&w, "unpriced", r->n_unpriced);
    tallies_json(&w, "left_out", &r->modes);
    tallies_json(&w, "unused", &r->unused);
    tallies_json(&w, "not_understood", &r->strange);
    jw_named_uint(&w, "n_notes", r->n_notes);
    jw_key(&w, "notes");
    jw_array(&w);
    for (size_t i = 0; i < r->n_notes && i < LITELLM_NOTES_MAX; i++) {
        jw_object(&w);
        jw_key(&w, "model");
        jw_string(&w, r->notes[i].model);
        jw_key(&w, "member");
        jw_string(&w, r->notes[i].member);
        jw_key(&w, "why");
        jw_cstr(&w, r->notes[i].why);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    buf_putc(b, '\n');
}

/* ---- the book ---- */

static bool write_all(int fd, struct bytes b)
{
    while (b.n > 0) {
        ssize_t n = write(fd, b.p, b.n);
        if (n < 0 && errno != EINTR)
            return false;
        b = bytes_slice(b, n > 0 ? (size_t)n : 0, b.n);
    }
    return true;
}

static bool write_file(const char *path, struct bytes content)
{
    struct buf beside = {0};
    buf_printf(&beside, "%s.%ld", path, (long)getpid());
    int fd = open(buf_cstr(&beside), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && write_all(fd, content) && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(buf_cstr(&beside), path) != 0) {
        ok = false;
        error = errno;
    }
    if (!ok && fd >= 0)
        unlink(buf_cstr(&beside));
    buf_fini(&beside);
    errno = error;
    return ok;
}

/* What is written must be readable, or the fault shows at the next load of the gateway. */
static bool is_book(struct bytes content, struct buf *why)
{
    struct price_book *book;
    if (price_book_parse(content, &book, why) != ERR_OK)
        return false;
    price_book_free(book);
    return true;
}

static int deliver(const struct asked *a, struct bytes book, const struct litellm_report *r)
{
    struct buf report = {0};
    bool ok = true;
    if (a->is_json)
        report_json(r, &report);
    else
        report_text(r, &report);
    if (a->out != NULL)
        ok = write_file(a->out, book);
    else
        ok = fwrite(book.p, 1, book.n, stdout) == book.n && fflush(stdout) == 0;
    if (!ok)
        fprintf(stderr, "ringmain price: %s: %s\n", a->out != NULL ? a->out : "standard output", strerror(errno));
    else
        fwrite(report.p, 1, report.n, a->out != NULL ? stdout : stderr);
    buf_fini(&report);
    return ok ? 0 : 1;
}

static int import(const struct asked *a, struct bytes text)
{
    struct buf out = {0}, why = {0};
    struct litellm_report report;
    const char *slash = strrchr(a->file, '/');
    struct litellm_ask ask = {text, slash != NULL ? slash + 1 : a->file, a->valid_from};
    bool ok = litellm_import(&ask, &out, &report, &why) == ERR_OK && is_book(buf_bytes(&out), &why);
    int code = ok ? deliver(a, buf_bytes(&out), &report) : 1;
    if (!ok)
        fprintf(stderr, "ringmain price: %s: %s\n", a->file, buf_cstr(&why));
    litellm_report_fini(&report);
    buf_fini(&out);
    buf_fini(&why);
    return code;
}

static int run(const struct asked *a)
{
    struct buf text = {.max = CATALOGUE_BYTES_MAX};
    int code = 1;
    if (!load_bytes(strcmp(a->file, "-") == 0 ? "/dev/stdin" : a->file, &text))
        fprintf(stderr, "ringmain price: %s: %s\n", a->file, strerror(errno));
    else if (text.n == text.max)
        fprintf(stderr, "ringmain price: %s: larger than %d MB\n", a->file, CATALOGUE_BYTES_MAX >> 20);
    else
        code = import(a, buf_bytes(&text));
    buf_fini(&text);
    return code;
}

static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                        {"valid-from", required_argument, NULL, 'v'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static bool is_day(const char *text)
{
    char whole[24];
    int64_t ms;
    snprintf(whole, sizeof whole, "%.10sT00:00:00Z", text);
    return strlen(text) == 10 && text_time_parse(bytes_of(whole), &ms);
}

/* -1 = go on; else the exit code. */
static int read_options(struct asked *a, int argc, char **argv)
{
    int o;
    while ((o = getopt_long(argc, argv, "o:h", options, NULL)) != -1) {
        switch (o) {
        case 'h':
            usage(stdout);
            return 0;
        case 'o':
            a->out = optarg;
            break;
        case 'v':
            a->valid_from = optarg;
            break;
        case 'j':
            a->is_json = true;
            break;
        default:
            usage(stderr);
            return 2;
        }
    }
    return -1;
}

int price_import(int argc, char **argv)
{
    struct asked a = {.valid_from = ""};
    int code = read_options(&a, argc, argv);
    if (code >= 0)
        return code;
    if (optind != argc - 1 || (a.is_json && a.out == NULL)) {
        usage(stderr);
        return 2;
    }
    if (a.valid_from[0] != '\0' && !is_day(a.valid_from)) {
        fprintf(stderr, "ringmain price: --valid-from is '%s'; expected a day such as 2026-07-18\n", a.valid_from);
        return 2;
    }
    a.file = argv[optind];
    return run(&a);
}
