/* The real worker on a virtual loop: first the scripted stories, then as many seeded ones as asked.
 *
 *     sim_worker [--story PART] [--seeds N [--from S]] [--seed S] */
#include "base/log.h"
#include "stories.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *part; /* NULL = all stories */
    uint64_t n_seeds, from, seed;
    bool has_seed, is_loud;
};

static bool read_options(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[++i] : NULL;
        if (value == NULL)
            return false;
        if (strcmp(argv[i - 1], "--story") == 0)
            o->part = value;
        else if (strcmp(argv[i - 1], "--seeds") == 0)
            o->n_seeds = strtoull(value, NULL, 10);
        else if (strcmp(argv[i - 1], "--from") == 0)
            o->from = strtoull(value, NULL, 10);
        else if (strcmp(argv[i - 1], "--seed") == 0) {
            o->seed = strtoull(value, NULL, 10);
            o->has_seed = true;
        } else
            return false;
    }
    return true;
}

static int tell_stories(const char *part)
{
    unsigned n_told = 0, n_faults = stories_run(part, &n_told);
    printf("%u stories, %u faults\n", n_told, n_faults);
    return n_faults > 0 || n_told == 0;
}

int main(int argc, char **argv)
{
    struct options o = {.from = 1};
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_set_level(LOG_ERROR + 1);
    if (!read_options(argc, argv, &o)) {
        fprintf(stderr, "usage: sim_worker [--story PART] [--seeds N [--from S]] [--seed S]\n");
        return 2;
    }
    if (o.has_seed)
        return chance_run(o.seed, true) ? 0 : 1;
    int rc = tell_stories(o.part != NULL ? o.part : "");
    for (uint64_t i = 0; rc == 0 && i < o.n_seeds; i++)
        if (!chance_run(o.from + i, false)) {
            printf("replay: sim_worker --seed %llu\n", (unsigned long long)(o.from + i));
            rc = 1;
        }
    if (rc == 0 && o.n_seeds > 0)
        printf("%llu seeds\n", (unsigned long long)o.n_seeds);
    return rc;
}
