/* Before a request is sent, it and every other one in flight are taken for the worst that they may cost. One that has
 * ended counts as what it has cost where that is certain by then, else it stays the worst until the phase is read back
 * from the ledger. So the cap is kept whatever the providers do. */
#include "cmd/bench.h"

#include <unistd.h>

bool bench_cap_may_start(struct bench_cap *c)
{
    int64_t at_risk, sum;
    if (c->is_on && (__builtin_mul_overflow((int64_t)c->n_open + 1, c->worst_nusd, &at_risk) ||
                     __builtin_add_overflow(at_risk, c->spent_nusd + c->ended_nusd, &sum) || sum > c->max_nusd))
        return false;
    c->n_open++;
    return true;
}

void bench_cap_ended(struct bench_cap *c, int64_t cost_nusd)
{
    if (cost_nusd == NUSD_UNKNOWN)
        return;
    c->n_open--;
    c->ended_nusd += cost_nusd;
}

void bench_cap_settle(struct bench_cap *c, const struct sample *v, size_t n)
{
    for (size_t i = 0; i < n && c->is_on; i++)
        c->spent_nusd += v[i].cost_nusd == NUSD_UNKNOWN ? c->worst_nusd : v[i].cost_nusd;
    c->n_open = 0;
    c->ended_nusd = 0;
}

static double usd(int64_t nusd)
{
    return (double)nusd / 1e9;
}

bool bench_cap_agree(const struct bench_options *o, const struct bench_cap *c, uint64_t n_requests)
{
    char answer[16] = "";
    fprintf(stderr,
            "ringmain bench: this sends up to %llu requests of about %u tokens to the providers of %s.\n"
            "  one request costs at most $%.6f (every link tried, every answer %u tokens long), all of them $%.2f;\n"
            "  the run stops before the sum can pass $%.2f.\n",
            (unsigned long long)n_requests, o->system_tokens + o->user_tokens, o->config, usd(c->worst_nusd),
            o->max_tokens, usd(c->worst_nusd) * (double)n_requests, usd(c->max_nusd));
    if (o->is_agreed)
        return true;
    if (!isatty(0)) {
        fputs("ringmain bench: nobody is there to be asked; --yes agrees\n", stderr);
        return false;
    }
    fputs("Go on? [y/N] ", stderr);
    fflush(stderr);
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}
