#include "lab/mock_order.h"

#include "base/check.h"
#include "base/text.h"
#include "codec/json_tree.h"

enum { DEPTH_MAX = 8 };

/* Numbers of a row: where they go, and what one of them is worth there. */
struct number {
    const char *name;
    size_t offset;
    int64_t factor, max;
};

static const struct number numbers[] = {
    {"after", offsetof(struct rule, fault.after), 1, 1000000},
    {"ttft_ms", offsetof(struct rule, fault.ttft_ms), 1, 86400000},
    {"for_ms", offsetof(struct rule, fault.for_ms), 1, 86400000},
    {"bytes", offsetof(struct rule, fault.bytes), 1, FAULT_BYTES_MAX},
    {"times", offsetof(struct rule, fault.times), 1, 1000000000},
};
/* The same with decimals: seconds into milliseconds. */
static const struct number seconds[] = {
    {"retry_after", offsetof(struct rule, fault.retry_after_ms), 1000, 86400000},
    {"from_s", offsetof(struct rule, from_ms), 1000, 1000000000},
    {"to_s", offsetof(struct rule, to_ms), 1000, 1000000000},
};

/* A number as JSON writes it, in millionths. */
static bool to_micro(yyjson_val *v, struct arena *arena, int64_t *out)
{
    return yyjson_is_raw(v) && text_price(json_tree_text(v, arena), out);
}

static const char *read_number(yyjson_val *v, const struct number *k, bool has_decimals, struct arena *arena,
                               struct rule *row)
{
    int64_t n;
    bool ok = has_decimals ? to_micro(v, arena, &n) : json_tree_to_int(v, &n);
    if (ok && has_decimals)
        n /= 1000000 / k->factor;
    if (!ok || n < 0 || n > k->max)
        return arena_printf(arena, "`%s` must be a number from 0 to %lld", k->name,
                            (long long)(has_decimals ? k->max / k->factor : k->max))
            .p;
    *(int64_t *)(void *)((char *)row + k->offset) = n;
    return NULL;
}

static const char *read_probability(yyjson_val *v, struct arena *arena, struct rule *row)
{
    int64_t ppm;
    if (!to_micro(v, arena, &ppm) || ppm > RULE_ALWAYS_PPM)
        return "`probability` must be a number from 0 to 1";
    row->ppm = (uint32_t)ppm;
    return NULL;
}

static bool read_range(yyjson_val *v, struct rule *row)
{
    int64_t n = 0;
    uint64_t from, to;
    if (json_tree_to_int(v, &n)) {
        from = to = (uint64_t)n;
    } else {
        struct bytes rest = json_tree_bytes(v), first;
        if (!yyjson_is_str(v))
            return false;
        first = bytes_cut(&rest, '-');
        if (!bytes_to_u64(first, &from) || !bytes_to_u64(rest, &to))
            return false;
    }
    if (n < 0 || from < 1 || to < from || row->n_requests == RULE_RANGES_MAX)
        return false;
    row->requests[row->n_requests].from = from;
    row->requests[row->n_requests++].to = to;
    return true;
}

static const char *read_requests(yyjson_val *v, struct rule *row)
{
    size_t i, n;
    yyjson_val *item;
    bool ok = yyjson_is_arr(v) ? yyjson_arr_size(v) > 0 : read_range(v, row);
    row->n_requests = yyjson_is_arr(v) ? 0 : row->n_requests;
    yyjson_arr_foreach(v, i, n, item) ok = ok && read_range(item, row);
    return ok ? NULL : "`requests` must be numbers from 1 or ranges like \"5-9\", up to 16";
}

static const char *read_model(yyjson_val *v, struct rule *row)
{
    struct bytes name = json_tree_bytes(v);
    if (!yyjson_is_str(v) || name.n == 0 || name.n >= sizeof row->model)
        return "`model` must be a model's name";
    memcpy(row->model, name.p, name.n);
    return NULL;
}

static const struct number *find(const struct number *v, size_t n, struct bytes name)
{
    for (size_t i = 0; i < n; i++)
        if (bytes_is(name, v[i].name))
            return &v[i];
    return NULL;
}

static const char *read_member(struct bytes name, yyjson_val *v, struct arena *arena, struct rule *row)
{
    const struct number *k = find(numbers, RM_COUNTOF(numbers), name), *s = find(seconds, RM_COUNTOF(seconds), name);
    if (k != NULL || s != NULL)
        return read_number(v, k != NULL ? k : s, s != NULL, arena, row);
    if (bytes_is(name, "probability"))
        return read_probability(v, arena, row);
    if (bytes_is(name, "requests"))
        return read_requests(v, row);
    if (bytes_is(name, "model"))
        return read_model(v, row);
    if (bytes_is(name, "fault") || bytes_is(name, "provider"))
        return NULL; /* read before */
    return arena_printf(arena, "`%.*s` is not known here", (int)(name.n < 80 ? name.n : 80), name.p).p;
}

/* One object: the words of `fault` become rows, the other members go to the last one. */
static const char *read_rows(yyjson_val *object, struct arena *arena, struct mock_order *out)
{
    struct fault faults[FAULT_LIST_MAX];
    struct bytes bad, list = json_tree_str(object, "fault");
    size_t i, n, n_faults;
    yyjson_val *name, *value;
    int64_t status = json_tree_int(object, "fault", -1);
    if (list.p == NULL && status > 0)
        list = arena_printf(arena, "%lld", (long long)status);
    if (list.n == 0 || !fault_parse_list(list, faults, &n_faults, &bad))
        return "`fault` must be a word, or words with commas, of those that `ringmain mock --help` lists";
    if (out->n + n_faults > RULES_MAX)
        return "at most 32 faults";
    for (i = 0; i < n_faults; i++)
        rule_init(&out->v[out->n++], &faults[i]);
    struct rule *last = &out->v[out->n - 1];
    yyjson_obj_foreach(object, i, n, name, value)
    {
        const char *why = read_member(json_tree_bytes(name), value, arena, last);
        if (why != NULL)
            return why;
    }
    return last->to_ms >= 0 && last->from_ms >= last->to_ms ? "`from_s` must be less than `to_s`" : NULL;
}

static const char *read_faults(yyjson_val *root, struct arena *arena, struct mock_order *out)
{
    size_t i, n;
    yyjson_val *row, *rows = yyjson_obj_get(root, "faults");
    if (rows == NULL)
        return read_rows(root, arena, out);
    if (!yyjson_is_arr(rows) || yyjson_arr_size(rows) == 0 || yyjson_obj_get(root, "fault") != NULL)
        return "`faults` must be a list of rows, and `fault` stands in each of them";
    yyjson_arr_foreach(rows, i, n, row)
    {
        const char *why = read_rows(row, arena, out);
        if (why != NULL)
            return why;
    }
    return NULL;
}

const char *mock_order_read(struct bytes body, bool wants_faults, struct arena *arena, struct mock_order *out)
{
    yyjson_val *root = NULL;
    *out = (struct mock_order){.port = -1};
    if (bytes_trim(body).n == 0 && !wants_faults)
        return NULL;
    if (json_tree_parse(body, DEPTH_MAX, arena, &root) != ERR_OK || !yyjson_is_obj(root))
        return "the body is no JSON object";
    yyjson_val *provider = yyjson_obj_get(root, "provider");
    out->provider = json_tree_str(root, "provider");
    if (provider != NULL && out->provider.p == NULL && (!json_tree_to_int(provider, &out->port) || out->port < 0))
        return "`provider` must be a name or a port";
    return wants_faults ? read_faults(root, arena, out) : NULL;
}
