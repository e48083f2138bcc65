/* Runs the seeded world: a range of seeds, one seed as a story, the list of seeds that once failed, or all planted
 * faults. */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    uint64_t from, n_seeds, seed;
    bool has_seed, is_story, is_hash;
    const char *file, *sabotage;
    bool is_proof;
};

static struct world_result total;

static void add_up(const struct world_result *r)
{
    total.hash = total.hash * 0x9e3779b97f4a7c15ULL + r->hash;
    total.n_requests += r->n_requests;
    total.n_ok += r->n_ok;
    total.n_failed += r->n_failed;
    total.n_cancelled += r->n_cancelled;
    total.n_attempts += r->n_attempts;
    total.n_retries += r->n_retries;
    total.n_repairs += r->n_repairs;
    total.n_waits += r->n_waits;
    total.n_trials += r->n_trials;
    total.n_overtimes += r->n_overtimes;
    total.n_skips += r->n_skips;
    total.n_in_stream += r->n_in_stream;
    total.n_joins += r->n_joins;
    total.n_hedges += r->n_hedges;
    total.requests_nusd += r->requests_nusd;
    total.requests_waste_nusd += r->requests_waste_nusd;
    total.attempts_nusd += r->attempts_nusd;
    total.attempts_waste_nusd += r->attempts_waste_nusd;
}

static bool run_seed(uint64_t seed, enum sabotage sabotage, struct world_result *r)
{
    world_run(&(struct world_conf){.seed = seed, .sabotage = sabotage}, r);
    return r->broken[0] == '\0';
}

static int run_range(const struct options *o, enum sabotage sabotage)
{
    struct world_result r;
    for (uint64_t i = 0; i < o->n_seeds; i++) {
        if (!run_seed(o->from + i, sabotage, &r)) {
            printf("LAW BROKEN: %s\n  replay: sim_engine --seed %llu --story\n", r.broken,
                   (unsigned long long)(o->from + i));
            return 1;
        }
        add_up(&r);
    }
    if (o->is_hash) {
        printf("%016llx\n", (unsigned long long)total.hash);
        return 0;
    }
    printf("%llu seeds: %u requests, %u ok, %u failed, %u cancelled; %u attempts, %u retries, %u repairs, %u waits, %u "
           "trials, %u overtimes, %u skips, %u told in-stream, %u resumed, %u hedges\n",
           (unsigned long long)o->n_seeds, total.n_requests, total.n_ok, total.n_failed, total.n_cancelled,
           total.n_attempts, total.n_retries, total.n_repairs, total.n_waits, total.n_trials, total.n_overtimes,
           total.n_skips, total.n_in_stream, total.n_joins, total.n_hedges);
    if (total.requests_nusd != total.attempts_nusd || total.requests_waste_nusd != total.attempts_waste_nusd) {
        printf(
            "LAW BROKEN: the sums of requests (%lld, waste %lld) are not those of their attempts (%lld, waste %lld)\n",
            (long long)total.requests_nusd, (long long)total.requests_waste_nusd, (long long)total.attempts_nusd,
            (long long)total.attempts_waste_nusd);
        return 1;
    }
    printf("spend %lld nano-dollars, waste %lld: requests and their attempts add up alike\n",
           (long long)total.requests_nusd, (long long)total.requests_waste_nusd);
    return 0;
}

static int tell_story(uint64_t seed, enum sabotage sabotage)
{
    struct buf story = {0};
    struct world_result r;
    world_run(&(struct world_conf){.seed = seed, .sabotage = sabotage, .story = &story}, &r);
    fwrite(story.p, 1, story.n, stdout);
    printf("hash %016llx%s%s\n", (unsigned long long)r.hash, r.broken[0] ? ", LAW BROKEN: " : "", r.broken);
    buf_fini(&story);
    return r.broken[0] != '\0';
}

/* One seed a line, # for comments. */
static int run_file(const char *path)
{
    char line[200];
    int rc = 0;
    FILE *f = fopen(path, "r");
    if (!f) {
        printf("cannot read %s\n", path);
        return 2;
    }
    while (fgets(line, sizeof line, f)) {
        char *end;
        uint64_t seed = strtoull(line, &end, 10);
        struct world_result r;
        if (end == line)
            continue;
        if (!run_seed(seed, SABOTAGE_NONE, &r)) {
            printf("LAW BROKEN: %s\n", r.broken);
            rc = 1;
        }
    }
    fclose(f);
    return rc;
}

/* Each planted fault must be seen within a thousand seeds. */
static int prove_laws(void)
{
    int rc = 0;
    for (int s = SABOTAGE_NONE + 1; s < SABOTAGE_N; s++) {
        struct world_result r = {0};
        uint64_t seed = 1;
        while (seed <= 1000 && run_seed(seed, (enum sabotage)s, &r))
            seed++;
        printf("%-15s %s\n", sabotage_name((enum sabotage)s), r.broken[0] ? r.broken : "NOT SEEN");
        rc |= r.broken[0] == '\0';
    }
    return rc;
}

static enum sabotage sabotage_of(const char *name)
{
    for (int s = SABOTAGE_NONE; name && s < SABOTAGE_N; s++)
        if (strcmp(name, sabotage_name((enum sabotage)s)) == 0)
            return (enum sabotage)s;
    return SABOTAGE_NONE;
}

static bool read_options(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--story") == 0)
            o->is_story = true;
        else if (strcmp(argv[i], "--hash") == 0)
            o->is_hash = true;
        else if (strcmp(argv[i], "--prove") == 0)
            o->is_proof = true;
        else if (!value)
            return false;
        else if (strcmp(argv[i], "--seeds") == 0)
            o->n_seeds = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--from") == 0)
            o->from = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--file") == 0)
            o->file = argv[++i];
        else if (strcmp(argv[i], "--break") == 0)
            o->sabotage = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0) {
            o->seed = strtoull(argv[++i], NULL, 10);
            o->has_seed = true;
        } else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options o = {.from = 1, .n_seeds = 10000};
    if (!read_options(argc, argv, &o)) {
        fprintf(stderr,
                "usage: sim_engine [--seeds N] [--from S] [--hash] | --seed S [--story] | --file PATH | --prove\n"
                "       --break NAME plants a fault\n");
        return 2;
    }
    if (o.is_proof)
        return prove_laws();
    if (o.file)
        return run_file(o.file);
    if (o.has_seed && o.is_story)
        return tell_story(o.seed, sabotage_of(o.sabotage));
    if (o.has_seed) {
        o.from = o.seed;
        o.n_seeds = 1;
    }
    return run_range(&o, sabotage_of(o.sabotage));
}
