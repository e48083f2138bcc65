/* Each entry is read into a draft (rates by service, base and above thresholds), then written as one entry of the book
 * and one more for each service that has rates of its own. The fallbacks are the catalogue's: a rate that a tier does
 * not give is the base rate's; one that a service does not give is the standard one's. */
#include "price/litellm.h"

#include "base/check.h"
#include "codec/json_tree.h"
#include "codec/json_write.h"
#include "price/decimal.h"
#include "price/litellm_member.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEPTH_MAX = 32, TIERS_MAX = 16, MULTIPLIERS_MAX = 8, NAMES_MAX = 40 };
#define PUSD_PER_USD INT64_C(1000000000000)

struct rates {
    int64_t v[RATE_N]; /* pico-dollars a token; -1 = not given */
};
struct tier {
    int64_t above;
    struct rates by[SERVICE_N];
};
struct multiplier {
    struct bytes service;
    int64_t ppm;
};
struct draft {
    struct bytes model, vendor;
    struct rates base[SERVICE_N], off_peak;
    struct tier tiers[TIERS_MAX];
    size_t n_tiers;
    int64_t request;
    bool has_off_peak;
    struct multiplier multipliers[MULTIPLIERS_MAX];
    size_t n_multipliers;
    struct bytes names[NAMES_MAX];
    size_t n_names;
};
struct importing {
    const struct litellm_ask *ask;
    yyjson_val *root;
    struct litellm_report *report;
    struct json_writer w;
    struct draft d; /* of the entry at hand */
};

/* ---- the report ---- */

static void note(struct importing *im, struct bytes member, const char *why)
{
    struct litellm_report *r = im->report;
    if (r->n_notes < LITELLM_NOTES_MAX)
        r->notes[r->n_notes] = (struct litellm_note){im->d.model, arena_dup(&r->arena, member), why};
    r->n_notes++;
}

static void tally(struct importing *im, struct litellm_tallies *t, struct bytes word)
{
    for (size_t i = 0; i < t->n; i++)
        if (bytes_eq(t->v[i].word, word)) {
            t->v[i].n++;
            return;
        }
    if (t->n == LITELLM_TALLIES_MAX) { /* the last one stands for all that have no place of their own */
        t->v[t->n - 1].n++;
        return;
    }
    t->v[t->n++] = (struct litellm_tally){arena_dup(&im->report->arena, word), im->d.model, 1};
}

/* ---- values ---- */

static struct rates no_rates(void)
{
    struct rates r;
    for (int i = 0; i < RATE_N; i++)
        r.v[i] = -1;
    return r;
}

static bool has_rates(const struct rates *r)
{
    for (int i = 0; i < RATE_N; i++)
        if (r->v[i] >= 0)
            return true;
    return false;
}

/* A number, or one in quotes. */
static bool read_number(struct importing *im, struct bytes member, yyjson_val *v, int places, int64_t max, int64_t *out)
{
    struct bytes text = json_tree_bytes(v);
    bool is_rounded = false;
    if (yyjson_is_null(v))
        return false; /* the same as absent */
    if (yyjson_is_raw(v))
        text = bytes_from(yyjson_get_raw(v), yyjson_get_len(v));
    const char *why = text.p == NULL ? "is not a number" : decimal_units(text, places, max, out, &is_rounded);
    if (why != NULL)
        note(im, member, why);
    else if (is_rounded)
        note(im, member, "is finer than can be kept: rounded");
    return why == NULL;
}

static void read_rate(struct importing *im, struct bytes member, yyjson_val *v, int64_t *out)
{
    int64_t pusd;
    if (read_number(im, member, v, 12, PUSD_PER_USD, &pusd))
        *out = pusd;
}

static struct tier *tier_at(struct importing *im, struct bytes member, int64_t above)
{
    struct draft *d = &im->d;
    size_t i = 0;
    while (i < d->n_tiers && d->tiers[i].above < above)
        i++;
    if (i < d->n_tiers && d->tiers[i].above == above)
        return &d->tiers[i];
    if (d->n_tiers == TIERS_MAX) {
        note(im, member, "is one tier too many");
        return NULL;
    }
    memmove(&d->tiers[i + 1], &d->tiers[i], (d->n_tiers - i) * sizeof d->tiers[0]);
    d->n_tiers++;
    d->tiers[i].above = above;
    for (int s = 0; s < SERVICE_N; s++)
        d->tiers[i].by[s] = no_rates();
    return &d->tiers[i];
}

static void read_rate_member(struct importing *im, struct bytes name, const struct member *m, yyjson_val *v)
{
    if (m->above == 0) {
        int64_t *at = &im->d.base[m->service].v[m->kind];
        bool is_older = bytes_is(name, "input_cost_per_token_cache_hit");
        if (!is_older || *at < 0) /* the newer name goes before the older one */
            read_rate(im, name, v, at);
        return;
    }
    struct tier *t = tier_at(im, name, m->above);
    if (t != NULL)
        read_rate(im, name, v, &t->by[m->service].v[m->kind]);
}

static void put_multiplier(struct importing *im, struct bytes service, yyjson_val *v)
{
    struct draft *d = &im->d;
    int64_t ppm;
    if (!read_number(im, service, v, 6, INT64_C(1000000000), &ppm) || ppm == 1000000)
        return;
    if (d->n_multipliers == MULTIPLIERS_MAX)
        note(im, service, "is one multiplier too many");
    else
        d->multipliers[d->n_multipliers++] = (struct multiplier){service, ppm};
}

static void read_multipliers(struct importing *im, struct bytes name, yyjson_val *o)
{
    size_t i, n;
    yyjson_val *key, *v;
    if (!yyjson_is_obj(o))
        note(im, name, "is not an object");
    yyjson_obj_foreach(o, i, n, key, v) put_multiplier(im, json_tree_bytes(key), v);
}

/* Rates by their bare names; members of another kind are told unless they are known not to be prices. */
static void read_bare_rates(struct importing *im, yyjson_val *o, struct rates *out)
{
    size_t i, n;
    yyjson_val *key, *v;
    enum rate_kind kind;
    yyjson_obj_foreach(o, i, n, key, v)
    {
        struct bytes name = json_tree_bytes(key);
        if (member_is_rate(name, &kind))
            read_rate(im, name, v, &out->v[kind]);
        else if (!bytes_is(name, "range") && member_of(name).sort != MEMBER_PLAIN)
            tally(im, member_of(name).sort == MEMBER_UNUSED ? &im->report->unused : &im->report->strange, name);
    }
}

static void read_off_peak(struct importing *im, struct bytes name, yyjson_val *o)
{
    if (!yyjson_is_obj(o)) {
        note(im, name, "is not an object");
        return;
    }
    im->d.off_peak = no_rates();
    read_bare_rates(im, o, &im->d.off_peak);
    im->d.has_off_peak = has_rates(&im->d.off_peak);
    tally(im, &im->report->unused, BYTES("off_peak_pricing hours"));
}

/* ---- tiered_pricing: [{"range": [from, to], rates}], in any order ---- */

struct range {
    int64_t from, to; /* to < 0 = without an end */
    yyjson_val *rates;
};

static int by_from(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static bool read_range(yyjson_val *o, struct range *r)
{
    yyjson_val *range = yyjson_obj_get(o, "range"), *to = yyjson_arr_get(range, 1);
    r->rates = o;
    r->to = -1;
    if (yyjson_arr_size(range) != 2 || !json_tree_to_int(yyjson_arr_get(range, 0), &r->from) || r->from < 0)
        return false;
    return yyjson_is_null(to) || (json_tree_to_int(to, &r->to) && r->to > r->from);
}

/* A rate that a range leaves out is the entry's own, not the one of the range below. */
static struct rates rates_of_range(struct importing *im, const struct range *r, const struct rates *entry)
{
    struct rates v = no_rates();
    read_bare_rates(im, r->rates, &v);
    for (int i = 0; i < RATE_N; i++)
        v.v[i] = v.v[i] < 0 ? entry->v[i] : v.v[i];
    for (int i = RATE_READ; i <= RATE_WRITE_1H; i++)
        v.v[i] = v.v[i] < 0 ? v.v[RATE_INPUT] : v.v[i];
    v.v[RATE_REASONING] = v.v[RATE_REASONING] < 0 ? v.v[RATE_OUTPUT] : v.v[RATE_REASONING];
    return v;
}

static void read_tiered(struct importing *im, struct bytes name, yyjson_val *list)
{
    struct range ranges[TIERS_MAX];
    size_t n = 0, i, max;
    yyjson_val *o;
    if (!yyjson_is_arr(list))
        note(im, name, "is not a list");
    yyjson_arr_foreach(list, i, max, o)
    {
        if (yyjson_obj_get(o, "max_results_range") != NULL) /* of searches, by their number of results */
            tally(im, &im->report->unused, BYTES("max_results_range"));
        else if (n == TIERS_MAX || !read_range(o, &ranges[n]))
            note(im, name, n == TIERS_MAX ? "has too many ranges" : "has a range that is not [from, to]");
        else
            n++;
    }
    qsort(ranges, n, sizeof ranges[0], by_from);
    const struct rates entry = im->d.base[SERVICE_STANDARD];
    for (i = 0; i < n; i++) {
        struct rates v = rates_of_range(im, &ranges[i], &entry);
        if (i > 0 && ranges[i].from != ranges[i - 1].to)
            note(im, name,
                 ranges[i].from == ranges[i - 1].from ? "has two ranges that begin at one place"
                                                      : "has ranges with a gap, or that overlap");
        struct tier *t = ranges[i].from == 0 ? NULL : tier_at(im, name, ranges[i].from);
        if (ranges[i].from == 0)
            im->d.base[SERVICE_STANDARD] = v;
        else if (t != NULL)
            t->by[SERVICE_STANDARD] = v;
    }
}

/* ---- names ---- */

/* The catalogue's names of providers, where ours differ. An entry with '*' matches what begins like it. */
static struct bytes vendor_of(struct bytes provider)
{
    static const char *const pairs[][2] = {
        {"together_ai", "together"},
        {"fireworks_ai*", "fireworks"},
        {"azure_ai", "azure"},
        {"azure_text", "azure"},
        {"bedrock*", "bedrock"},
        {"vertex_ai*", "vertex"},
        {"dashscope", "alibaba"},
        {"text-completion-openai", "openai"},
        {"cohere_chat", "cohere"},
        {"codestral", "mistral"},
        {"text-completion-codestral", "mistral"},
    };
    for (size_t i = 0; i < RM_COUNTOF(pairs); i++) {
        struct bytes word = bytes_of(pairs[i][0]);
        bool is_head = bytes_ends_with(word, BYTES("*"));
        if (is_head ? bytes_starts_with(provider, bytes_slice(word, 0, word.n - 1)) : bytes_eq(provider, word))
            return bytes_of(pairs[i][1]);
    }
    return provider;
}

static void add_name(struct importing *im, struct bytes name)
{
    struct draft *d = &im->d;
    for (size_t i = 0; i < d->n_names; i++)
        if (bytes_eq(d->names[i], name))
            return;
    if (d->n_names == NAMES_MAX || name.n == 0 || name.n > 500)
        note(im, name, "is a name too many, or too long");
    else
        d->names[d->n_names++] = name;
}

static struct bytes joined(struct importing *im, struct bytes prefix, struct bytes name)
{
    return arena_printf(&im->report->arena, "%.*s/%.*s", (int)prefix.n, prefix.p, (int)name.n, name.p);
}

/* "openai" and "gpt-5": "openai/gpt-5" and "gpt-5". "together_ai/meta/x": "together/meta/x". */
static void add_names_of(struct importing *im, struct bytes name, struct bytes provider)
{
    struct bytes rest = name, head = bytes_cut(&rest, '/');
    if (rest.p == NULL) {
        if (im->d.vendor.n > 0)
            add_name(im, joined(im, im->d.vendor, name));
        add_name(im, name);
        return;
    }
    bool is_own = bytes_eq(head, provider) || bytes_eq(vendor_of(head), im->d.vendor);
    add_name(im, joined(im, is_own ? im->d.vendor : vendor_of(head), rest));
    if (!is_own && im->d.vendor.n > 0)
        add_name(im, joined(im, im->d.vendor, name));
}

static void read_names(struct importing *im, yyjson_val *o)
{
    struct bytes provider = json_tree_str(o, "litellm_provider");
    yyjson_val *aliases = yyjson_obj_get(o, "aliases"), *alias;
    size_t i, n;
    im->d.vendor = vendor_of(provider);
    add_names_of(im, im->d.model, provider);
    yyjson_arr_foreach(aliases, i, n, alias)
    {
        struct bytes name = json_tree_bytes(alias);
        if (name.n == 0)
            note(im, BYTES("aliases"), "has one that is not a text");
        else if (yyjson_obj_getn(im->root, name.p, name.n) == NULL) /* an entry of that name knows better */
            add_names_of(im, name, provider);
    }
}

/* ---- writing ---- */

/* Pico-dollars a token as USD per million tokens. */
static void put_rate(struct json_writer *w, const char *name, int64_t pusd)
{
    char text[40];
    if (pusd < 0)
        return;
    int n = snprintf(text, sizeof text, "%lld.%06lld", (long long)(pusd / 1000000), (long long)(pusd % 1000000));
    while (text[n - 1] == '0')
        n--;
    n -= text[n - 1] == '.';
    jw_key(w, name);
    jw_string(w, bytes_from(text, (size_t)n));
}

static void put_rates(struct json_writer *w, const struct rates *r)
{
    static const char *const names[RATE_N] = {"input",          "output",         "cache_read",
                                              "cache_write_5m", "cache_write_1h", "reasoning"};
    for (int i = 0; i < RATE_N; i++)
        put_rate(w, names[i], r->v[i]);
}

static struct rates first_known(const struct rates *a, const struct rates *b)
{
    struct rates r = *a;
    for (int i = 0; i < RATE_N; i++)
        r.v[i] = r.v[i] < 0 ? b->v[i] : r.v[i];
    return r;
}

static struct rates times(struct rates r, int64_t ppm)
{
    for (int i = 0; i < RATE_N; i++)
        if (r.v[i] >= 0)
            r.v[i] = (int64_t)(((__int128)r.v[i] * ppm + 500000) / 1000000);
    return r;
}

/* xAI compares with "at least", the others with "more than". */
static void put_tiers(struct importing *im, enum service s, int64_t ppm)
{
    const struct draft *d = &im->d;
    struct json_writer *w = &im->w;
    bool is_open = false;
    for (size_t i = 0; i < d->n_tiers; i++) {
        struct rates r = times(first_known(&d->tiers[i].by[s], &d->tiers[i].by[SERVICE_STANDARD]), ppm);
        if (!has_rates(&r))
            continue;
        if (!is_open) {
            jw_key(w, "tiers");
            jw_array(w);
        }
        is_open = true;
        jw_object(w);
        jw_key(w, "above");
        jw_int(w, d->tiers[i].above);
        if (bytes_is(d->vendor, "xai")) {
            jw_key(w, "inclusive");
            jw_bool(w, true);
        }
        put_rates(w, &r);
        jw_end(w);
        im->report->n_tiers += s == SERVICE_STANDARD && ppm == 1000000;
    }
    if (is_open)
        jw_end(w);
}

static void put_request(struct json_writer *w, int64_t pusd)
{
    char text[48];
    if (pusd <= 0)
        return;
    int n =
        snprintf(text, sizeof text, "%lld.%012lld", (long long)(pusd / PUSD_PER_USD), (long long)(pusd % PUSD_PER_USD));
    jw_key(w, "request");
    jw_string(w, bytes_from(text, (size_t)n));
}

/* What differs from one entry of a model to the next. */
struct variant {
    struct bytes word; /* of its service; n 0 = standard */
    struct rates base;
    enum service tiers_of;
    int64_t ppm;
    bool has_tiers;
};

static void put_entry(struct importing *im, yyjson_val *o, const struct variant *v)
{
    const struct draft *d = &im->d;
    struct json_writer *w = &im->w;
    struct bytes source = json_tree_str(o, "source");
    buf_putc(w->out, '\n');
    jw_object(w);
    jw_key(w, "names");
    jw_array(w);
    for (size_t i = 0; i < d->n_names; i++)
        jw_string(w, d->names[i]);
    jw_end(w);
    if (d->vendor.n > 0) {
        jw_key(w, "vendor");
        jw_string(w, d->vendor);
    }
    if (v->word.n > 0) {
        jw_key(w, "service");
        jw_string(w, v->word);
    }
    put_rates(w, &v->base);
    put_request(w, d->request);
    if (v->has_tiers)
        put_tiers(im, v->tiers_of, v->ppm);
    if (source.n > 0) {
        jw_key(w, "source");
        jw_string(w, source);
    }
    jw_end(w);
    im->report->n_services += v->word.n > 0;
}

/* A multiple that the book could not hold is left out. */
static void put_multiple(struct importing *im, yyjson_val *o, const struct multiplier *m)
{
    struct variant v = {m->service, times(im->d.base[SERVICE_STANDARD], m->ppm), SERVICE_STANDARD, m->ppm, true};
    int64_t most = 0;
    for (int i = 0; i < RATE_N; i++) {
        most = v.base.v[i] > most ? v.base.v[i] : most;
        for (size_t k = 0; k < im->d.n_tiers; k++) {
            struct rates r = times(im->d.tiers[k].by[SERVICE_STANDARD], m->ppm);
            most = r.v[i] > most ? r.v[i] : most;
        }
    }
    if (most > PUSD_PER_USD)
        note(im, m->service, "multiplies a rate beyond 1 USD a token");
    else
        put_entry(im, o, &v);
}

static bool has_service(const struct draft *d, enum service s)
{
    bool found = has_rates(&d->base[s]);
    for (size_t i = 0; i < d->n_tiers; i++)
        found |= has_rates(&d->tiers[i].by[s]);
    return found;
}

static void put_model(struct importing *im, yyjson_val *o)
{
    const struct draft *d = &im->d;
    const struct rates *standard = &d->base[SERVICE_STANDARD];
    put_entry(im, o, &(struct variant){.base = *standard, .ppm = 1000000, .has_tiers = true});
    for (int s = SERVICE_FLEX; s < SERVICE_N; s++)
        if (has_service(d, (enum service)s))
            put_entry(im, o,
                      &(struct variant){bytes_of(service_word((enum service)s)), first_known(&d->base[s], standard),
                                        (enum service)s, 1000000, true});
    for (size_t i = 0; i < d->n_multipliers; i++)
        put_multiple(im, o, &d->multipliers[i]);
    if (d->has_off_peak)
        put_entry(im, o,
                  &(struct variant){BYTES("off_peak"), first_known(&d->off_peak, standard), SERVICE_STANDARD, 1000000,
                                    false});
    im->report->n_written++;
}

/* ---- reading ---- */

static void read_member(struct importing *im, struct bytes name, yyjson_val *v)
{
    struct member m = member_of(name);
    switch (m.sort) {
    case MEMBER_RATE:
        read_rate_member(im, name, &m, v);
        break;
    case MEMBER_REQUEST:
        read_rate(im, name, v, &im->d.request);
        break;
    case MEMBER_MULTIPLIERS:
        read_multipliers(im, name, v);
        break;
    case MEMBER_UPLIFT:
        put_multiplier(im, m.region.n > 0 ? m.region : BYTES("regional"), v);
        break;
    case MEMBER_OFF_PEAK:
        read_off_peak(im, name, v);
        break;
    case MEMBER_UNUSED:
        tally(im, &im->report->unused, name);
        break;
    case MEMBER_STRANGE:
        tally(im, &im->report->strange, name);
        break;
    case MEMBER_TIERED: /* after the others: it falls back to them */
    case MEMBER_PLAIN:
        break;
    }
}

static bool is_billed_by_tokens(struct bytes mode)
{
    static const char *const modes[] = {"chat", "responses", "completion", "embedding"};
    for (size_t i = 0; i < RM_COUNTOF(modes); i++)
        if (bytes_is(mode, modes[i]))
            return true;
    return mode.n == 0;
}

static void read_model(struct importing *im, yyjson_val *o)
{
    struct draft *d = &im->d;
    struct bytes mode = json_tree_str(o, "mode");
    size_t i, n;
    yyjson_val *key, *v, *tiered = yyjson_obj_get(o, "tiered_pricing");
    if (!is_billed_by_tokens(mode)) {
        tally(im, &im->report->modes, mode);
        return;
    }
    yyjson_obj_foreach(o, i, n, key, v) read_member(im, json_tree_bytes(key), v);
    if (tiered != NULL)
        read_tiered(im, BYTES("tiered_pricing"), tiered);
    const struct rates *r = &d->base[SERVICE_STANDARD];
    if (r->v[RATE_INPUT] < 0 && r->v[RATE_OUTPUT] < 0) {
        im->report->n_unpriced++;
        return;
    }
    read_names(im, o);
    put_model(im, o);
}

static void start_draft(struct importing *im, struct bytes model)
{
    im->d = (struct draft){.model = arena_dup(&im->report->arena, model)};
    for (int s = 0; s < SERVICE_N; s++)
        im->d.base[s] = no_rates();
}

static void read_models(struct importing *im)
{
    size_t i, n;
    yyjson_val *key, *o;
    yyjson_obj_foreach(im->root, i, n, key, o)
    {
        struct bytes model = json_tree_bytes(key);
        if (bytes_is(model, "sample_spec") || bytes_is(model, "fallback_generalizations"))
            continue; /* documentation, and rules for names */
        start_draft(im, model);
        im->report->n_models++;
        if (!yyjson_is_obj(o))
            note(im, (struct bytes){0}, "is not an object");
        else if (yyjson_obj_getn(im->root, model.p, model.n) != o)
            note(im, (struct bytes){0}, "stands twice: the first one is taken");
        else
            read_model(im, o);
    }
}

static void put_book(struct importing *im, struct bytes text)
{
    struct json_writer *w = &im->w;
    char version[40];
    snprintf(version, sizeof version, "litellm-%016llx", (unsigned long long)bytes_hash(text, 0));
    jw_object(w);
    jw_key(w, "version");
    jw_cstr(w, version);
    jw_key(w, "source");
    jw_cstr(w, im->ask->source);
    if (im->ask->valid_from[0] != '\0') {
        jw_key(w, "valid_from");
        jw_cstr(w, im->ask->valid_from);
    }
    jw_key(w, "prices");
    jw_array(w);
    read_models(im);
    jw_end(w);
    jw_end(w);
    buf_putc(w->out, '\n');
}

/* NaN and Infinity are written by some programs and are not JSON: put in quotes they are values that are no numbers. */
static void quote_odd_numbers(struct bytes in, struct buf *out)
{
    static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
    bool in_string = false;
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        size_t n = 0;
        for (size_t k = 0; !in_string && n == 0 && k < RM_COUNTOF(words); k++)
            n = bytes_starts_with(bytes_slice(in, i, in.n), bytes_of(words[k])) ? strlen(words[k]) : 0;
        if (n > 0) {
            buf_printf(out, "\"%.*s\"", (int)n, in.p + i);
            i += n - 1;
            continue;
        }
        buf_putc(out, c);
        if (in_string && c == '\\' && i + 1 < in.n)
            buf_putc(out, in.p[++i]);
        else if (c == '"')
            in_string = !in_string;
    }
}

static void tell_syntax(struct bytes text, struct buf *why)
{
    const char *what;
    size_t at = json_tree_fault(text, &what);
    unsigned line = 1;
    for (size_t i = 0; i < at && i < text.n; i++)
        line += text.p[i] == '\n';
    buf_printf(why, "line %u: not well-formed JSON: %s", line, what);
}

enum err litellm_import(const struct litellm_ask *ask, struct buf *out, struct litellm_report *report, struct buf *why)
{
    struct arena scratch = {0};
    struct buf quoted = {0};
    struct importing im = {.ask = ask, .report = report};
    *report = (struct litellm_report){0};
    enum err err = json_tree_parse(ask->text, DEPTH_MAX, &scratch, &im.root);
    if (err == ERR_SYNTAX) {
        quote_odd_numbers(ask->text, &quoted);
        err = json_tree_parse(buf_bytes(&quoted), DEPTH_MAX, &scratch, &im.root);
    }
    if (err == ERR_LIMIT)
        buf_puts(why, "nested too deeply");
    else if (err != ERR_OK)
        tell_syntax(quoted.n > 0 ? buf_bytes(&quoted) : ask->text, why);
    else if (!yyjson_is_obj(im.root))
        err = ERR_TYPE;
    if (err == ERR_TYPE)
        buf_puts(why, "not a catalogue: its root is not an object of models");
    if (err == ERR_OK) {
        jw_init(&im.w, out);
        put_book(&im, ask->text);
    }
    buf_fini(&quoted);
    arena_fini(&scratch);
    return err;
}

void litellm_report_fini(struct litellm_report *r)
{
    arena_fini(&r->arena);
}
