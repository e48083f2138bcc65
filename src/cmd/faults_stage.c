#include "cmd/faults_stage.h"

#include "cmd/load.h"
#include "lab/fb_config.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 1 << 20 };

extern const unsigned char failover_bench_yaml[];
extern const size_t failover_bench_yaml_n;

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "ringmain bench faults: %s: %s\n", what, why);
    return false;
}

static bool read_file(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return complain(path, strerror(errno));
    for (size_t n = 1; n > 0 && out->n < CONFIG_BYTES_MAX;) {
        n = fread(buf_reserve(out, 4096), 1, 4096, f);
        buf_grew(out, n);
    }
    bool ok = !ferror(f) && feof(f);
    fclose(f);
    return ok || complain(path, "cannot be read, or is larger than 1 MB");
}

static bool write_file(const char *path, struct bytes text)
{
    FILE *f = fopen(path, "w");
    bool ok = f != NULL && fwrite(text.p, 1, text.n, f) == text.n;
    if (f != NULL && fclose(f) != 0)
        ok = false;
    return ok || complain(path, strerror(errno));
}

/* What the file says now; the addresses that it listens on are wanted. False: its faults have been printed. */
static bool load(const char *path, const char *told, char listen[160], char admin[160])
{
    struct config_faults faults = {0};
    struct config *c = NULL;
    bool ok = config_load_file(path, &faults, &c) == ERR_OK;
    if (ok) {
        snprintf(listen, 160, "%s", c->listen);
        snprintf(admin, 160, "%s", c->admin_listen);
    } else {
        struct buf text = {0};
        config_faults_text(&faults, &text);
        fputs(buf_cstr(&text), stderr);
        buf_fini(&text);
        complain(told, "the gateway's configuration has faults");
    }
    config_faults_fini(&faults);
    config_unref(c);
    return ok;
}

/* The address `from`, where it stands in the text, becomes the loopback's `port`. A default that is not written is
 * written at the end: `name` is its setting. */
static void move_address(struct buf *text, const char *from, const char *name, uint16_t port)
{
    struct buf out = {0};
    char to[32];
    snprintf(to, sizeof to, "127.0.0.1:%u", port);
    if (fb_config_replace(buf_bytes(text), bytes_of(from), bytes_of(to), &out) == 0)
        buf_printf(&out, "\n%s: %s\n", name, to);
    buf_fini(text);
    *text = buf_take(&out);
}

static bool write_config(struct faults_stage *s, const char *config, unsigned speed, const uint16_t *ports)
{
    struct buf text = {0}, fast = {0};
    char listen[160], admin[160];
    bool ok = true;
    if (config == NULL)
        buf_put(&text, bytes_from(failover_bench_yaml, failover_bench_yaml_n));
    else
        ok = read_file(config, &text);
    if (ok && bytes_find(buf_bytes(&text), bytes_of(fb_config_wall)) == SIZE_MAX)
        ok = complain(config, "names no provider at 127.0.0.1:9199, where the pretend one stands");
    snprintf(s->config, sizeof s->config, "%s/ringmain.yaml", s->dir);
    ok = ok && write_file(s->config, buf_bytes(&text)) &&
         load(s->config, config != NULL ? config : "the shipped configuration", listen, admin);
    if (ok) {
        move_address(&text, fb_config_wall, "", s->wall_port);
        move_address(&text, listen, "listen", s->gateway_port);
        if (*admin != '\0')
            move_address(&text, admin, "admin", ports[2]);
        fb_config_speed(buf_bytes(&text), speed, &fast);
        ok = write_file(s->config, buf_bytes(&fast));
    }
    buf_fini(&text);
    buf_fini(&fast);
    return ok;
}

static pid_t start_wall(struct faults_stage *s, unsigned speed)
{
    char log[CHILD_PATH_BYTES], listen[32], factor[16];
    snprintf(log, sizeof log, "%s/mock.log", s->dir);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", s->wall_port);
    snprintf(factor, sizeof factor, "%u", speed);
    const char *const argv[] = {"ringmain", "mock", "--listen", listen, "--fb-speed", factor, NULL};
    return child_start(argv, log);
}

static pid_t start_gateway(struct faults_stage *s)
{
    char log[CHILD_PATH_BYTES];
    snprintf(log, sizeof log, "%s/gateway.log", s->dir);
    const char *const argv[] = {"ringmain", "serve", "-c", s->config, NULL};
    return child_start(argv, log);
}

bool faults_stage_start(struct faults_stage *s, const char *config, unsigned speed)
{
    uint16_t ports[3];
    *s = (struct faults_stage){0};
    if (!child_dir("faults", s->dir)) {
        s->dir[0] = '\0';
        return complain("a folder for the logs", strerror(errno));
    }
    if (!child_free_ports(ports, RM_COUNTOF(ports)))
        return complain("127.0.0.1", "no free ports");
    s->wall_port = ports[0];
    s->gateway_port = ports[1];
    if (!write_config(s, config, speed, ports))
        return false;
    s->is_started = true;
    s->wall = start_wall(s, speed);
    s->gateway = start_gateway(s);
    struct arena a = {0};
    struct caller_answer answer;
    struct caller *c = caller_new();
    bool ok = s->wall > 0 && s->gateway > 0 && child_wait_for_ok(c, s->wall_port, "/_mock/log", &a, &answer) &&
              child_wait_for_ok(c, s->gateway_port, "/healthz", &a, &answer);
    caller_free(c);
    arena_fini(&a);
    return ok || complain(s->dir, "the pretend provider or the gateway did not start; see the logs there");
}

bool faults_stage_is_alive(struct faults_stage *s)
{
    if (!child_is_alive(&s->wall))
        return complain(s->dir, "the pretend provider has ended by itself; see mock.log there");
    return child_is_alive(&s->gateway) || complain(s->dir, "the gateway has ended by itself; see gateway.log there");
}

void faults_stage_end(struct faults_stage *s, bool is_good)
{
    child_end(s->gateway);
    child_end(s->wall);
    if (s->dir[0] == '\0')
        return;
    if (is_good || !s->is_started)
        child_dir_remove(s->dir);
    else
        fprintf(stderr, "ringmain bench faults: configuration and logs are in %s\n", s->dir);
}
