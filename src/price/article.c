/* Each row names what was printed and the three amounts behind it; none of ours is typed in. An outage and a timeout
 * that is too tight are the same chain with other shares: all calls fail, or one in twenty is cut. */
#include "price/article.h"

#include "base/check.h"
#include "price/show.h"

enum {
    FAIL_PPM = 5000,    /* 0.5 % of the primary's calls fail */
    TRIP_PPM = 50000,   /* 5 % of its calls are cut by a timeout that is too tight */
    WASTE_PPM = 500000, /* half of the output is generated when a call is cut */
    PREFIX_TOKENS = 15000,
};
static const int64_t july_18_ms = INT64_C(1784332800000); /* 2026-07-18T00:00:00Z */

const char *article_assumptions(void)
{
    return "2,000 tokens in, 500 out; 0.5 % of the primary's calls fail, by hanging; a hung call costs its input and "
           "half "
           "of its output; cached prefix of 15,000 tokens; prices of 2026-07-18; per 1,000 calls";
}

/* What the figures are made of. */
struct parts {
    const struct price *sol, *sonnet, *haiku, *flash;
    struct chain_ask ask;
    struct chain_bill steady, fast, hung, tight;
    int64_t primary, cut, with_write_twice, cold, with_write;
};

struct printed {
    int64_t cents;
    bool is_added;
    enum article_change kind;
    int64_t change;
    unsigned places;
};

static const char models[] = "cost of 1,000 calls";
static const char attempts[] = "a failed attempt of the primary";
static const char patterns[] = "four patterns, 0.5 % failures";
static const char outages[] = "during an outage";
static const char timeouts[] = "timeouts, added cost";
static const char caches[] = "cached prefix of 15,000 tokens";

static int64_t minus(int64_t a, int64_t b)
{
    return a == NUSD_UNKNOWN || b == NUSD_UNKNOWN ? NUSD_UNKNOWN : a - b;
}

/* `amount` is what the printed dollars are, `changed` what the printed per cent or times is of `base`. */
static struct article_figure *put(struct article *a, const char *section, const char *name, struct printed p,
                                  int64_t amount, int64_t changed, int64_t base)
{
    RM_ASSERT(a->n < ARTICLE_FIGURES_MAX);
    struct article_figure *f = &a->figures[a->n++];
    *f = (struct article_figure){.section = section, .name = name, .accounting = "bill"};
    f->is_added = p.is_added;
    f->published_cents = p.cents;
    f->kind = p.kind;
    f->published_change = p.change;
    f->places = p.places;
    f->as_published_nusd = amount;
    f->bill_nusd = amount;
    f->gross_nusd = f->net_nusd = NUSD_UNKNOWN;
    f->change = p.kind == CHANGE_NONE ? 0 : show_ratio(changed, base, p.kind == CHANGE_PERCENT ? 100 : 1, p.places);
    f->agrees = show_ratio(amount, 1000000000, 1, 2) == p.cents && f->change == p.change;
    return f;
}

static void explain(struct article_figure *f, const char *accounting, int64_t bill, int64_t gross, int64_t net)
{
    f->accounting = accounting;
    f->bill_nusd = bill;
    f->gross_nusd = gross;
    f->net_nusd = net;
}

static void put_models(struct article *a, const struct parts *p)
{
    const struct usage *call = &p->ask.call;
    put(a, models, "gpt-5.6-sol", (struct printed){.cents = 2500}, chain_alone(p->sol, call), 0, 1);
    put(a, models, "claude-sonnet-5", (struct printed){.cents = 900}, chain_alone(p->sonnet, call), 0, 1);
    put(a, models, "claude-haiku-4.5", (struct printed){.cents = 450}, chain_alone(p->haiku, call), 0, 1);
    put(a, models, "deepseek-v4-flash", (struct printed){.cents = 42}, chain_alone(p->flash, call), 0, 1);
}

static void put_attempts(struct article *a, const struct parts *p)
{
    struct article_figure *f =
        put(a, attempts, "fails at once (503)", (struct printed){.cents = 0}, p->fast.steps[0].waste_nusd, 0, 1);
    explain(f, "gross", NUSD_UNKNOWN, f->as_published_nusd, NUSD_UNKNOWN);
    f = put(a, attempts, "hangs until cut", (struct printed){.cents = 1750}, p->cut, 0, 1);
    explain(f, "gross", NUSD_UNKNOWN, p->cut, NUSD_UNKNOWN);
    f = put(a, attempts, "all of them, at 0.5 %", (struct printed){.cents = 9}, p->steady.waste_nusd, 0, 1);
    explain(f, "gross", NUSD_UNKNOWN, p->steady.waste_nusd, NUSD_UNKNOWN);
}

static void put_patterns(struct article *a, const struct parts *p)
{
    struct chain_ask healthy = p->ask;
    healthy.links[0].fail_ppm = 0;
    int64_t base = p->primary, total = p->steady.cost_nusd, net = minus(total, base);
    put(a, patterns, "primary only", (struct printed){.cents = 2500}, base, 0, 1);
    struct article_figure *f =
        put(a, patterns, "sequential", (struct printed){2501, false, CHANGE_PERCENT, 3, 2}, total, net, base);
    explain(f, "bill; net per cent", total, p->steady.waste_nusd, net);
    int64_t first = chain_hedged(&healthy, true), both = chain_hedged(&healthy, false);
    f = put(a, patterns, "hedged, take first", (struct printed){2900, false, CHANGE_PERCENT, 16, 0}, first,
            minus(first, base), base);
    explain(f, "bill, no failures", first, minus(first, base), minus(first, base));
    f = put(a, patterns, "hedged, no cancel", (struct printed){3400, false, CHANGE_PERCENT, 36, 0}, both,
            minus(both, base), base);
    explain(f, "bill, no failures", both, minus(both, base), minus(both, base));
    a->hedged_nusd[0] = chain_hedged(&p->ask, true);
    a->hedged_nusd[1] = chain_hedged(&p->ask, false);
}

static void put_outages(struct article *a, const struct parts *p)
{
    int64_t base = p->primary;
    struct article_figure *f =
        put(a, outages, "fails at once", (struct printed){.cents = 900}, p->fast.cost_nusd, 0, 1);
    explain(f, "bill", p->fast.cost_nusd, p->fast.waste_nusd, minus(p->fast.cost_nusd, base));
    f = put(a, outages, "hangs until the timeout", (struct printed){2650, false, CHANGE_PERCENT, 6, 0},
            p->hung.cost_nusd, minus(p->hung.cost_nusd, base), base);
    explain(f, "bill; net per cent", p->hung.cost_nusd, p->hung.waste_nusd, minus(p->hung.cost_nusd, base));
}

static void put_timeouts(struct article *a, const struct parts *p)
{
    int64_t base = p->primary, net = minus(p->steady.cost_nusd, base),
            redone = chain_share(p->hung.cost_nusd, TRIP_PPM);
    struct article_figure *f = put(a, timeouts, "real outages, 0.5 %", (struct printed){9, true, CHANGE_PERCENT, 3, 2},
                                   p->steady.waste_nusd, net, base);
    explain(f, "gross dollars, net per cent", p->steady.cost_nusd, p->steady.waste_nusd, net);
    f = put(a, timeouts, "too tight, 5 % of healthy calls", (struct printed){133, true, CHANGE_PERCENT, 53, 1}, redone,
            redone, base);
    explain(f, "whole bill of the redone calls", p->tight.cost_nusd, p->tight.waste_nusd,
            minus(p->tight.cost_nusd, base));
}

static void put_caches(struct article *a, const struct parts *p)
{
    struct usage warm = p->ask.call;
    warm.cache_read = PREFIX_TOKENS;
    int64_t base = chain_alone(p->sol, &warm), later = chain_alone(p->sonnet, &warm);
    put(a, caches, "primary, warm", (struct printed){.cents = 3250}, base, 0, 1);
    struct article_figure *f = put(a, caches, "1st failover, cold", (struct printed){3900, false, CHANGE_TIMES, 12, 1},
                                   p->cold, p->cold, base);
    explain(f, "bill", p->cold, NUSD_UNKNOWN, minus(p->cold, base));
    f = put(a, caches, "1st failover, with cache write", (struct printed){7650, false, CHANGE_TIMES, 24, 1},
            p->with_write_twice, p->with_write_twice, base);
    explain(f, "prefix counted twice", p->with_write, NUSD_UNKNOWN, minus(p->with_write, base));
    f = put(a, caches, "later failovers, warm", (struct printed){1200, false, CHANGE_TIMES, 4, 1}, later, later, base);
    explain(f, "bill", later, NUSD_UNKNOWN, minus(later, base));
}

static void ask_with(const struct parts *p, uint32_t fail_ppm, uint32_t hang_ppm, struct chain_bill *out)
{
    struct chain_ask ask = p->ask;
    ask.links[0].fail_ppm = fail_ppm;
    ask.links[0].hang_ppm = hang_ppm;
    chain_sequential(&ask, out);
}

static void compute_parts(struct parts *p)
{
    p->ask = (struct chain_ask){.n = 2, .call = {2000, 0, 0, 0, 500, 0}, .waste_ppm = WASTE_PPM};
    p->ask.links[0] = (struct chain_link){p->sol, FAIL_PPM, PPM, ABORT_INPUT_AND_GENERATED};
    p->ask.links[1] = (struct chain_link){p->sonnet, 0, 0, ABORT_INPUT_AND_GENERATED};
    p->primary = chain_alone(p->sol, &p->ask.call);
    p->cut = chain_cut(p->sol, &p->ask.call, WASTE_PPM);
    chain_sequential(&p->ask, &p->steady);
    ask_with(p, PPM, 0, &p->fast);
    ask_with(p, PPM, PPM, &p->hung);
    ask_with(p, TRIP_PPM, PPM, &p->tight);
    struct usage cold = p->ask.call, written = p->ask.call, prefix = {0, 0, PREFIX_TOKENS, 0, 0, 0};
    cold.input += PREFIX_TOKENS;
    written.cache_write_5m = PREFIX_TOKENS;
    p->cold = chain_alone(p->sonnet, &cold);
    p->with_write = chain_alone(p->sonnet, &written);
    p->with_write_twice = p->cold + chain_alone(p->sonnet, &prefix);
}

bool article_compute(const struct price_book *book, struct article *out)
{
    struct parts p = {.sol = price_find(book, "", "openai", "gpt-5.6-sol", july_18_ms),
                      .sonnet = price_find(book, "", "anthropic", "claude-sonnet-5", july_18_ms),
                      .haiku = price_find(book, "", "anthropic", "claude-haiku-4.5", july_18_ms),
                      .flash = price_find(book, "", "deepseek", "deepseek-v4-flash", july_18_ms)};
    *out = (struct article){0};
    if (p.sol == NULL || p.sonnet == NULL || p.haiku == NULL || p.flash == NULL)
        return false;
    compute_parts(&p);
    out->primary_nusd = p.primary;
    put_models(out, &p);
    put_attempts(out, &p);
    put_patterns(out, &p);
    put_outages(out, &p);
    put_timeouts(out, &p);
    put_caches(out, &p);
    return true;
}

/* ---- what is wrong with three of them ---- */

static const struct article_figure *find(const struct article *a, const char *accounting)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->figures[i].accounting, accounting) == 0)
            return &a->figures[i];
    RM_ASSERT(false);
    return NULL;
}

static void put_printed(const struct article_figure *f, struct buf *out)
{
    (f->is_added ? show_change : show_usd)(out, f->published_cents * 10000000, 2);
    if (f->kind == CHANGE_NONE)
        return;
    buf_puts(out, " / ");
    show_fixed(out, f->published_change, f->places, f->kind == CHANGE_PERCENT);
    buf_puts(out, f->kind == CHANGE_PERCENT ? " %" : "x");
}

static void put_both(const struct article *a, const char *word, int64_t nusd, struct buf *out)
{
    buf_puts(out, word);
    show_change(out, nusd, 4);
    buf_puts(out, " (");
    show_fixed(out, show_ratio(nusd, a->primary_nusd, 100, 2), 2, true);
    buf_puts(out, " %)");
}

void article_correction(const struct article *a, size_t i, struct buf *out)
{
    static const char *const of[ARTICLE_CORRECTIONS] = {"gross dollars, net per cent", "whole bill of the redone calls",
                                                        "prefix counted twice"};
    RM_ASSERT(i < ARTICLE_CORRECTIONS);
    const struct article_figure *f = find(a, of[i]);
    put_printed(f, out);
    if (i == 2) {
        buf_puts(out, " counts the prefix twice, as input and as cache write; a write takes the place of the input "
                      "price: the bill is ");
        show_usd(out, f->bill_nusd, 2);
        buf_puts(out, ", ");
        show_fixed(out, show_ratio(f->bill_nusd, minus(f->bill_nusd, f->net_nusd), 1, 1), 1, false);
        buf_puts(out, "x.");
        return;
    }
    buf_puts(out, i == 0 ? " mixes two accountings, gross dollars and a net per cent:"
                         : " adds the whole bill of the redone calls and does not take off what they cost anyway:");
    put_both(a, " gross ", f->gross_nusd, out);
    put_both(a, ", net ", f->net_nusd, out);
    buf_putc(out, '.');
}
