/* A map of the file is read by a table of its members: name, what reads it, and where it goes. A reader tells what is
 * wrong and leaves the default standing, so that one fault does not hide the next. */
#include "lab/mock_yaml.h"

#include "base/text.h"
#include "config/fault.h"

enum { MS_MAX = 86400000, TOKENS_MAX = 100000, MEMBERS_MAX = 32, MODELS_MAX = 256, SPEED_MAX = 1000 };

struct reader {
    struct fault_log log;
    struct arena *arena;
    const char *folder; /* of the file, with its slash; "" = here */
};

struct member {
    const char *name;
    void (*read)(struct reader *r, const struct node *n, const struct member *m, void *to);
    size_t offset;
    uint64_t min, max; /* of numbers */
};

static void expected(struct reader *r, const struct node *n, const char *name, const char *what)
{
    if (n->kind == NODE_SCALAR)
        fault_error(&r->log, place_of(n), "\"%s\" is \"%s\"; expected %s", name, fault_quote(&r->log, n->raw), what);
    else
        fault_error(&r->log, place_of(n), "\"%s\" is %s; expected %s", name, node_kind_text(n), what);
}

static const struct member *find(const struct member *members, size_t n_members, struct bytes name)
{
    for (size_t i = 0; i < n_members; i++)
        if (bytes_is(name, members[i].name))
            return &members[i];
    return NULL;
}

/* False: it is no map. */
static bool read_map(struct reader *r, const struct node *map, const char *what, const struct member *members,
                     size_t n_members, void *to)
{
    const char *names[MEMBERS_MAX + 1];
    RM_ASSERT(n_members <= MEMBERS_MAX);
    for (size_t i = 0; i < n_members; i++)
        names[i] = members[i].name;
    names[n_members] = NULL;
    if (map->kind != NODE_MAP) {
        fault_error(&r->log, place_of(map), "%s is %s; expected a map", what, node_kind_text(map));
        return false;
    }
    NODE_EACH(map, item)
    {
        const struct member *m = find(members, n_members, item->key);
        if (m == NULL)
            fault_error(&r->log, place_of_key(item), "\"%s\" is not a setting of %s%s", fault_quote(&r->log, item->key),
                        what, fault_hint(&r->log, item->key, names));
        else
            m->read(r, item, m, (char *)to + m->offset);
    }
    return true;
}

/* ---- scalars ---- */

/* A decimal number with up to three decimals, in thousandths; the range is in whole units. */
static bool thousandths(struct reader *r, const struct node *n, const struct member *m, uint64_t *out)
{
    int64_t micro;
    if (n->kind == NODE_SCALAR && text_price(n->raw, &micro) && micro % 1000 == 0) {
        uint64_t v = (uint64_t)micro / 1000;
        if (v >= m->min * 1000 && v <= m->max * 1000) {
            *out = v;
            return true;
        }
    }
    expected(r, n, m->name,
             arena_printf(&r->log.faults->arena, "a number from %llu to %llu, at most three decimals",
                          (unsigned long long)m->min, (unsigned long long)m->max)
                 .p);
    return false;
}

static bool whole(struct reader *r, const struct node *n, const struct member *m, uint64_t *out)
{
    uint64_t v;
    if (n->kind == NODE_SCALAR && bytes_to_u64(n->raw, &v) && v >= m->min && v <= m->max) {
        *out = v;
        return true;
    }
    expected(r, n, m->name,
             arena_printf(&r->log.faults->arena, "a whole number from %llu to %llu", (unsigned long long)m->min,
                          (unsigned long long)m->max)
                 .p);
    return false;
}

static void read_whole(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    uint64_t v;
    if (whole(r, n, m, &v))
        *(uint64_t *)to = v;
}

/* Seconds, with decimals, into milliseconds. */
static void read_seconds(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    uint64_t v;
    if (thousandths(r, n, m, &v))
        *(int64_t *)to = (int64_t)v;
}

static void read_count(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    uint64_t v;
    if (whole(r, n, m, &v))
        *(int64_t *)to = (int64_t)v;
}

static bool is_text(const struct node *n)
{
    if (n->kind != NODE_SCALAR || n->raw.n == 0)
        return false;
    for (size_t i = 0; i < n->raw.n; i++)
        if ((unsigned char)n->raw.p[i] < 0x20 && n->raw.p[i] != '\n')
            return false;
    return true;
}

static void read_text(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    if (is_text(n))
        *(const char **)to = arena_dup(r->arena, n->raw).p;
    else
        expected(r, n, m->name, "text");
}

static void read_path(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    if (!is_text(n))
        expected(r, n, m->name, "a path");
    else if (n->raw.p[0] == '/')
        read_text(r, n, m, to);
    else
        *(const char **)to = arena_printf(r->arena, "%s%.*s", r->folder, (int)n->raw.n, n->raw.p).p;
}

/* `usage: true` is no_usage == false. */
static void read_usage(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    if (n->kind == NODE_SCALAR && (bytes_is(n->raw, "true") || bytes_is(n->raw, "false")))
        *(bool *)to = bytes_is(n->raw, "false");
    else
        expected(r, n, m->name, "true or false");
}

/* One of the words; *index is left alone when it is none. */
static void read_word(struct reader *r, const struct node *n, const char *name, const char *const *words, int *index)
{
    struct buf list = {0};
    for (int i = 0; words[i] != NULL; i++) {
        if (n->kind == NODE_SCALAR && bytes_is(n->raw, words[i])) {
            *index = i;
            buf_fini(&list);
            return;
        }
        buf_printf(&list, "%s%s", i == 0 ? "" : " or ", words[i]);
    }
    const char *hint = n->kind == NODE_SCALAR ? fault_hint(&r->log, n->raw, words) : "";
    expected(r, n, name, arena_printf(&r->log.faults->arena, "%s%s", buf_cstr(&list), hint).p);
    buf_fini(&list);
}

static void read_dialect(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    static const char *const words[] = {"openai", "anthropic", NULL};
    int i = *(enum shape_dialect *)to;
    read_word(r, n, m->name, words, &i);
    *(enum shape_dialect *)to = (enum shape_dialect)i;
}

static void read_prefill(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    static const char *const words[] = {"ignore", "continue", "reject", NULL};
    int i = *(enum mock_prefill *)to;
    read_word(r, n, m->name, words, &i);
    *(enum mock_prefill *)to = (enum mock_prefill)i;
}

/* ---- distributions ---- */

static bool two_numbers(struct reader *r, const struct node *n, const struct member *m, struct spread *s)
{
    if (n->kind != NODE_LIST || n->n != 2) {
        expected(r, n, "uniform", "a list of two numbers");
        return false;
    }
    if (!whole(r, n->first, m, &s->a) || !whole(r, n->last, m, &s->b))
        return false;
    if (s->a > s->b)
        expected(r, n, "uniform", "the smaller number first");
    return s->a <= s->b;
}

static bool pair(struct reader *r, const struct node *n, const struct member *m, const char *first, const char *second,
                 struct spread *s)
{
    const struct node *a = node_get(n, first), *b = node_get(n, second);
    if (a == NULL || b == NULL || n->n != 2) {
        fault_error(&r->log, place_of(n), "\"%s\" needs %s and %s, and nothing else", m->name, first, second);
        return false;
    }
    return whole(r, a, m, &s->a) && whole(r, b, m, &s->b);
}

static bool lognormal(struct reader *r, const struct node *n, const struct member *m, struct spread *s)
{
    if (!pair(r, n, m, "p50", "p99", s))
        return false;
    if (s->a == 0 || s->b < s->a)
        fault_error(&r->log, place_of(n), "\"%s\": p50 must be at least 1, and p99 no less than p50", m->name);
    return s->a > 0 && s->b >= s->a;
}

/* n | { uniform: [a, b] } | { p50: a, p99: b } | { base: a, per_1k_tokens: b } */
static void read_spread(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    static const char *const names[] = {"uniform", "p50", "p99", "base", "per_1k_tokens", NULL};
    struct spread s = {SPREAD_FIXED, 0, 0};
    bool ok = false;
    if (n->kind == NODE_SCALAR) {
        ok = whole(r, n, m, &s.a);
    } else if (n->kind == NODE_LIST || n->n == 0) {
        expected(r, n, m->name, "a number or a map like { p50: 150, p99: 400 }");
    } else if (node_get(n, "uniform") != NULL && n->n == 1) {
        s.kind = SPREAD_UNIFORM;
        ok = two_numbers(r, n->first, m, &s);
    } else if (node_get(n, "p50") != NULL || node_get(n, "p99") != NULL) {
        s.kind = SPREAD_LOGNORMAL;
        ok = lognormal(r, n, m, &s);
    } else if (node_get(n, "base") != NULL || node_get(n, "per_1k_tokens") != NULL) {
        s.kind = SPREAD_PROMPT;
        ok = pair(r, n, m, "base", "per_1k_tokens", &s);
    } else {
        fault_error(&r->log, place_of_key(n->first), "\"%s\" is no distribution%s", fault_quote(&r->log, n->first->key),
                    fault_hint(&r->log, n->first->key, names));
    }
    if (ok)
        *(struct spread *)to = s;
}

/* `tokens` alone may not depend on the prompt. */
static void read_tokens(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    struct spread s = *(struct spread *)to;
    read_spread(r, n, m, &s);
    if (s.kind == SPREAD_PROMPT)
        expected(r, n, m->name, "a number, uniform, or p50 and p99");
    else
        *(struct spread *)to = s;
}

static void read_gap(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    uint64_t v;
    if (thousandths(r, n, m, &v))
        *(uint64_t *)to = v;
}

static void read_tokens_per_s(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    uint64_t v;
    if (thousandths(r, n, m, &v))
        *(uint64_t *)to = UINT64_C(1000000000) / v;
}

/* ---- maps of a provider ---- */

static void read_cache(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    static const struct member members[] = {
        {"ttl_s", read_seconds, offsetof(struct mock_cache_conf, ttl_ms), 0, 86400},
        {"min_tokens", read_whole, offsetof(struct mock_cache_conf, min_tokens), 0, 10000000}};
    struct mock_cache_conf c = {.ttl_ms = 300000, .min_tokens = 1024};
    if (read_map(r, n, "cache", members, RM_COUNTOF(members), &c))
        *(struct mock_cache_conf *)to = c;
}

static void read_cold(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    static const struct member members[] = {
        {"after_ms", read_whole, offsetof(struct mock_cold_conf, after_ms), 1, MS_MAX},
        {"connect_ms", read_whole, offsetof(struct mock_cold_conf, connect_ms), 0, MS_MAX},
        {"first_token_ms", read_whole, offsetof(struct mock_cold_conf, first_token_ms), 0, MS_MAX}};
    struct mock_cold_conf c = {0};
    if (!read_map(r, n, "cold", members, RM_COUNTOF(members), &c))
        return;
    if (node_get(n, "after_ms") == NULL)
        fault_error(&r->log, place_of(n), "\"cold\" needs after_ms");
    *(struct mock_cold_conf *)to = c;
}

static void read_tls(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    static const struct member members[] = {{"cert", read_path, offsetof(struct mock_conf, tls_cert), 0, 0},
                                            {"key", read_path, offsetof(struct mock_conf, tls_key), 0, 0}};
    struct mock_conf *c = to;
    if (read_map(r, n, "tls", members, RM_COUNTOF(members), c) &&
        (node_get(n, "cert") == NULL || node_get(n, "key") == NULL))
        fault_error(&r->log, place_of(n), "\"tls\" needs cert and key");
}

static void read_rate_number(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    uint64_t v;
    if (!thousandths(r, n, m, &v))
        return;
    if (v == 0)
        expected(r, n, m->name, "more than 0");
    *(uint64_t *)to = v;
}

static void read_rate(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    static const struct member members[] = {
        {"per_s", read_rate_number, offsetof(struct mock_rate_conf, per_s_milli), 0, 1000000},
        {"burst", read_whole, offsetof(struct mock_rate_conf, burst), 1, 1000000},
        {"retry_after_s", read_seconds, offsetof(struct mock_rate_conf, retry_after_ms), 0, 86400}};
    struct mock_rate_conf c = *(struct mock_rate_conf *)to;
    if (!read_map(r, n, "rate_limit", members, RM_COUNTOF(members), &c))
        return;
    if (node_get(n, "per_s") == NULL)
        fault_error(&r->log, place_of(n), "\"rate_limit\" needs per_s");
    *(struct mock_rate_conf *)to = c;
}

static void read_models(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    struct mock_conf *c = to;
    if (n->kind != NODE_LIST || n->n == 0 || n->n > MODELS_MAX) {
        expected(r, n, m->name, "a list of names");
        return;
    }
    const char **models = ARENA_ARRAY(r->arena, const char *, n->n);
    c->n_models = 0;
    NODE_EACH(n, item)
    {
        models[c->n_models] = "";
        read_text(r, item, m, &models[c->n_models++]);
    }
    c->models = models;
}

/* ---- rows of faults ---- */

static void read_fault(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    struct rule *row = to;
    struct fault f;
    if (n->kind == NODE_SCALAR && fault_parse(n->raw, &f)) {
        row->fault = f;
        return;
    }
    struct bytes rest = n->kind == NODE_SCALAR ? n->raw : BYTES("");
    const char *hint = fault_hint(&r->log, bytes_cut(&rest, ':'), fault_names());
    expected(r, n, m->name,
             arena_printf(&r->log.faults->arena, "a fault of those that `ringmain mock --help` lists%s", hint).p);
}

/* The numbers of a row go over those of its word, wherever they stand: they are read after it. */
static void read_later(struct reader *r, const struct node *n, const struct member *m, void *to)
{
}

static void read_probability(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    int64_t ppm;
    if (n->kind == NODE_SCALAR && text_price(n->raw, &ppm) && ppm <= RULE_ALWAYS_PPM)
        *(uint32_t *)to = (uint32_t)ppm;
    else
        expected(r, n, m->name, "a number from 0 to 1");
}

static bool read_range(struct bytes text, uint64_t *from, uint64_t *to)
{
    struct bytes rest = text, first = bytes_cut(&rest, '-');
    if (!bytes_to_u64(first, from))
        return false;
    *to = *from;
    return (rest.p == NULL || bytes_to_u64(rest, to)) && *from >= 1 && *to >= *from;
}

/* 3 | [1, 3] | [1, 5-9]: numbers, and ranges with both ends. */
static void read_requests(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    struct rule *row = to;
    const struct node *first = n->kind == NODE_LIST ? n->first : n;
    if (n->kind == NODE_MAP || first == NULL || (n->kind == NODE_LIST && n->n > RULE_RANGES_MAX)) {
        expected(r, n, m->name, "up to 16 numbers from 1, or ranges like 5-9");
        return;
    }
    for (const struct node *item = first; item != NULL; item = n->kind == NODE_LIST ? item->next : NULL) {
        if (item->kind != NODE_SCALAR ||
            !read_range(item->raw, &row->requests[row->n_requests].from, &row->requests[row->n_requests].to))
            expected(r, item, m->name, "a number from 1, or a range like 5-9");
        else
            row->n_requests++;
    }
}

static void read_row_model(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    struct rule *row = to;
    if (!is_text(n) || n->raw.n >= sizeof row->model)
        expected(r, n, m->name, "a model's name");
    else
        memcpy(row->model, n->raw.p, n->raw.n);
}

static const struct member row_members[] = {
    {"fault", read_fault, 0, 0, 0},
    {"probability", read_probability, offsetof(struct rule, ppm), 0, 0},
    {"from_s", read_seconds, offsetof(struct rule, from_ms), 0, 1000000},
    {"to_s", read_seconds, offsetof(struct rule, to_ms), 0, 1000000},
    {"requests", read_requests, 0, 0, 0},
    {"model", read_row_model, 0, 0, 0},
    {"retry_after", read_later, 0, 0, 0},
    {"after", read_later, 0, 0, 0},
    {"ttft_ms", read_later, 0, 0, 0},
    {"for_ms", read_later, 0, 0, 0},
    {"bytes", read_later, 0, 0, 0},
    {"times", read_later, 0, 0, 0},
};

static const struct member number_members[] = {
    {"retry_after", read_seconds, offsetof(struct fault, retry_after_ms), 0, 86400},
    {"after", read_count, offsetof(struct fault, after), 0, TOKENS_MAX},
    {"ttft_ms", read_count, offsetof(struct fault, ttft_ms), 0, MS_MAX},
    {"for_ms", read_count, offsetof(struct fault, for_ms), 0, MS_MAX},
    {"bytes", read_count, offsetof(struct fault, bytes), 1, FAULT_BYTES_MAX},
    {"times", read_count, offsetof(struct fault, times), 1, 1000000000},
};

static void read_row(struct reader *r, const struct node *n, struct rule *row)
{
    struct fault ok;
    fault_parse(BYTES("ok"), &ok);
    rule_init(row, &ok);
    if (!read_map(r, n, "a fault", row_members, RM_COUNTOF(row_members), row))
        return;
    if (node_get(n, "fault") == NULL)
        fault_error(&r->log, place_of(n), "a row of \"faults\" needs fault");
    NODE_EACH(n, item)
    {
        const struct member *m = find(number_members, RM_COUNTOF(number_members), item->key);
        if (m != NULL)
            m->read(r, item, m, (char *)&row->fault + m->offset);
    }
    if (row->to_ms >= 0 && row->from_ms >= row->to_ms)
        fault_error(&r->log, place_of(n), "from_s must be less than to_s");
}

static void read_faults(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    struct mock_conf *c = to;
    if (node_is_empty(n))
        return;
    if (n->kind != NODE_LIST || n->n > RULES_MAX) {
        expected(r, n, m->name, "a list of up to 32 rows");
        return;
    }
    c->n_rules = 0;
    NODE_EACH(n, item)
    read_row(r, item, &c->rules[c->n_rules++]);
}

/* ---- providers ---- */

static void read_port(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    uint64_t port;
    if (whole(r, n, m, &port))
        *(const char **)to = arena_printf(r->arena, "127.0.0.1:%u", (unsigned)port).p;
}

static const struct member provider_members[] = {
    {"name", read_text, offsetof(struct mock_conf, name), 0, 0},
    {"listen", read_text, offsetof(struct mock_conf, listen), 0, 0},
    {"port", read_port, offsetof(struct mock_conf, listen), 0, 65535},
    {"dialect", read_dialect, offsetof(struct mock_conf, dialect), 0, 0},
    {"models", read_models, 0, 0, 0},
    {"model", read_text, offsetof(struct mock_conf, model), 0, 0},
    {"key", read_text, offsetof(struct mock_conf, key), 0, 0},
    {"ttft", read_spread, offsetof(struct mock_conf, ttft_ms), 0, MS_MAX},
    {"tokens_per_s", read_tokens_per_s, offsetof(struct mock_conf, gap_us), 1, 1000000},
    {"gap_ms", read_gap, offsetof(struct mock_conf, gap_us), 0, MS_MAX},
    {"tokens", read_tokens, offsetof(struct mock_conf, tokens), 0, TOKENS_MAX},
    {"words", read_text, offsetof(struct mock_conf, words), 0, 0},
    {"usage", read_usage, offsetof(struct mock_conf, no_usage), 0, 0},
    {"cache", read_cache, offsetof(struct mock_conf, cache), 0, 0},
    {"cold", read_cold, offsetof(struct mock_conf, cold), 0, 0},
    {"tls", read_tls, 0, 0, 0},
    {"rate_limit", read_rate, offsetof(struct mock_conf, rate), 0, 0},
    {"prefill", read_prefill, offsetof(struct mock_conf, prefill), 0, 0},
    {"faults", read_faults, 0, 0, 0},
};

static void only_one_of(struct reader *r, const struct node *n, const char *a, const char *b)
{
    if (node_get(n, a) != NULL && node_get(n, b) != NULL)
        fault_error(&r->log, place_of_key(node_get(n, b)), "\"%s\" and \"%s\" exclude each other", a, b);
}

static void read_provider(struct reader *r, const struct node *n, struct mock_conf *c)
{
    if (!read_map(r, n, "a provider", provider_members, RM_COUNTOF(provider_members), c))
        return;
    only_one_of(r, n, "listen", "port");
    only_one_of(r, n, "tokens_per_s", "gap_ms");
    if (node_get(n, "listen") == NULL && node_get(n, "port") == NULL)
        fault_error(&r->log, place_of(n), "a provider needs listen or port");
}

static void read_providers(struct reader *r, const struct node *n, const struct member *m, void *to)
{
    struct mock_file *file = to;
    if (n->kind != NODE_LIST || n->n == 0 || n->n > MOCK_PROVIDERS_MAX) {
        expected(r, n, m->name, "a list of 1 to 64 providers");
        return;
    }
    file->v = ARENA_ARRAY(r->arena, struct mock_conf, n->n);
    NODE_EACH(n, item)
    {
        struct mock_conf *c = &file->v[file->n];
        mock_conf_init(c);
        c->name = arena_printf(r->arena, "p%zu", file->n + 1).p;
        read_provider(r, item, c);
        for (size_t i = 0; i < file->n; i++)
            if (strcmp(file->v[i].name, c->name) == 0)
                fault_error(&r->log, place_of(item), "two providers are called \"%s\"",
                            fault_quote(&r->log, bytes_of(c->name)));
        file->n++;
    }
}

struct whole_file {
    struct mock_file file;
    uint64_t seed, fb_speed;
};

static void read_file(struct reader *r, const struct node *root, struct whole_file *w)
{
    static const struct member members[] = {
        {"seed", read_whole, offsetof(struct whole_file, seed), 0, UINT64_MAX},
        {"fb_speed", read_whole, offsetof(struct whole_file, fb_speed), 1, SPEED_MAX},
        {"providers", read_providers, offsetof(struct whole_file, file), 0, 0}};
    if (!read_map(r, root, "the file", members, RM_COUNTOF(members), w))
        return;
    if (node_get(root, "providers") == NULL)
        fault_error(&r->log, place_of(root), "the file has no providers");
    for (size_t i = 0; i < w->file.n; i++) {
        w->file.v[i].seed = w->seed;
        w->file.v[i].fb_speed = (unsigned)w->fb_speed;
    }
}

static const char *folder_of(const char *path, struct arena *arena)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? "" : arena_dup(arena, bytes_from(path, (size_t)(slash + 1 - path))).p;
}

bool mock_yaml_parse(struct bytes text, const char *path, struct arena *arena, struct mock_file *out, struct buf *told)
{
    struct config_faults faults = {0};
    struct reader r = {.log = {.faults = &faults, .file = path}, .arena = arena, .folder = folder_of(path, arena)};
    struct whole_file w = {.seed = 1, .fb_speed = 1};
    struct node *root = node_parse(text, arena, &r.log);
    if (root != NULL)
        read_file(&r, root, &w);
    fault_sort(&faults);
    config_faults_text(&faults, told);
    bool ok = faults.n_errors == 0;
    config_faults_fini(&faults);
    *out = w.file;
    return ok;
}
