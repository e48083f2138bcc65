/* ringmain bench: what users feel while a provider fails, against the direct path as control. */
#include "cmd/bench.h"
#include "cmd/cmd.h"
#include "lab/report.h"

#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

static void tell_machine(struct result_machine *m)
{
    struct utsname u;
    char line[256];
    if (uname(&u) == 0)
        snprintf(m->kernel, sizeof m->kernel, "%.20s %.70s", u.sysname, u.release);
    m->cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    m->memory_mb = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE) >> 20;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (bytes_starts_with(bytes_of(line), BYTES("model name")) && strchr(line, ':') != NULL) {
            struct bytes cpu = bytes_trim(bytes_of(strchr(line, ':') + 1));
            snprintf(m->cpu, sizeof m->cpu, "%.*s", (int)cpu.n, cpu.p);
            break;
        }
    if (f != NULL)
        fclose(f);
}

/* A result of ten minutes is not thrown away because a disk is full. */
static bool write_or_rescue(const char *path, struct bytes text, const char *kind)
{
    char other[128];
    const char *tmp = getenv("TMPDIR");
    if (bench_write(path, text))
        return true;
    snprintf(other, sizeof other, "%.80s/ringmain-bench-%ld.%s", tmp != NULL && *tmp != '\0' ? tmp : "/tmp",
             (long)getpid(), kind);
    if (bench_write(other, text))
        fprintf(stderr, "ringmain bench: it was kept in %s instead\n", other);
    else
        fprintf(stderr, "ringmain bench: the %s is lost; the table is all there is\n", kind);
    return false;
}

static bool write_files(const struct bench_options *o, const struct result *r)
{
    struct buf json = {0}, html = {0};
    bool ok = true;
    result_json(r, &json);
    if (o->html != NULL) {
        report_html(buf_bytes(&json), &html);
        ok &= write_or_rescue(o->html, buf_bytes(&html), "html");
    }
    buf_putc(&json, '\n');
    if (o->json != NULL && strcmp(o->json, "-") == 0) {
        ok &= fwrite(json.p, 1, json.n, stdout) == json.n && fflush(stdout) == 0;
        if (!ok)
            fputs("ringmain bench: standard output does not take the JSON\n", stderr);
    } else if (o->json != NULL) {
        ok &= write_or_rescue(o->json, buf_bytes(&json), "json");
    }
    buf_fini(&json);
    buf_fini(&html);
    return ok;
}

static void tell_command(int argc, char **argv, struct buf *out)
{
    buf_puts(out, "ringmain bench");
    for (int i = 1; i < argc; i++) {
        bool is_plain = argv[i][0] != '\0' && strpbrk(argv[i], " '\"<>|&;$*?()") == NULL;
        buf_printf(out, is_plain ? " %s" : " '%s'", argv[i]);
    }
}

static int finish(const struct bench_options *o, const struct result *r, int code)
{
    bool ok = write_files(o, r);
    FILE *to = o->json != NULL && strcmp(o->json, "-") == 0 ? stderr : stdout;
    bench_show(r, to);
    if (ferror(to)) {
        fputs("ringmain bench: the table cannot be written to standard output\n", stderr);
        ok = false;
    }
    if (code == BENCH_RUN_OK && (!ok || result_n_unmet(r) > 0))
        return BENCH_RUN_FAILED;
    return code;
}

/* Told now, and not after a run of minutes. */
static bool can_write(const struct bench_options *o)
{
    const char *paths[] = {o->html, o->json, o->resume_file};
    bool ok = true;
    for (size_t i = 0; i < RM_COUNTOF(paths); i++)
        if (paths[i] != NULL && strcmp(paths[i], "-") != 0)
            ok &= bench_can_write(paths[i]);
    return ok;
}

int cmd_bench(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "faults") == 0)
        return cmd_bench_faults(argc - 1, argv + 1);
    struct bench_options o = {0};
    struct result r = {0};
    result_close(&r);
    int stop = bench_options_read(argc, argv, &o, &r.figures);
    int code = stop - 1;
    if (stop == 0 && !can_write(&o)) {
        code = BENCH_RUN_FAILED;
    } else if (stop == 0) {
        tell_command(argc, argv, &r.command);
        tell_machine(&r.machine);
        memcpy(r.expects, o.expects, sizeof r.expects);
        r.n_expects = o.n_expects;
        code = bench_run(&o, &r);
        if (code != BENCH_RUN_USAGE)
            code = finish(&o, &r, code);
    }
    bench_real_free(o.real);
    result_fini(&r);
    return code;
}
