/* The table is sets of four slots; a new entry takes the slot that ends first. So the memory is bounded, and a prompt
 * that was pushed out is simply written again. */
#include "lab/mock_cache.h"

#include "base/mem.h"

enum { SETS = 4096, SLOTS = 4, LOOK_BACK = 20, MARKERS_MAX = 4, PIECE_BYTES = 512, HOUR_FACTOR = 12 };

struct slot {
    uint64_t hash, from_us, until_us; /* until_us 0 = free */
};
struct mock_cache {
    struct mock_cache_conf conf;
    struct slot slots[SETS][SLOTS];
};

struct mock_cache *mock_cache_new(const struct mock_cache_conf *conf)
{
    struct mock_cache *c = mem_zalloc(sizeof *c);
    c->conf = *conf;
    return c;
}

void mock_cache_free(struct mock_cache *c)
{
    mem_free(c);
}

void mock_cache_clear(struct mock_cache *c)
{
    memset(c->slots, 0, sizeof c->slots);
}

static struct slot *find(struct mock_cache *c, uint64_t hash, uint64_t now_us)
{
    struct slot *set = c->slots[hash % SETS];
    for (size_t i = 0; i < SLOTS; i++)
        if (set[i].hash == hash && set[i].from_us <= now_us && now_us < set[i].until_us)
            return &set[i];
    return NULL;
}

static uint64_t ttl_us(const struct mock_cache *c, enum cache_marker marker)
{
    return c->conf.ttl_ms * 1000 * (marker == MARKER_1H ? HOUR_FACTOR : 1);
}

/* A prefix that is there (or on its way) lives longer from now on; else it is written, to be read from from_us. */
static void keep(struct mock_cache *c, const struct cache_block *b, uint64_t now_us, uint64_t from_us)
{
    struct slot *set = c->slots[b->hash % SETS], *place = &set[0];
    uint64_t until_us = from_us + ttl_us(c, b->marker);
    for (size_t i = 0; i < SLOTS; i++) {
        if (set[i].hash == b->hash && now_us < set[i].until_us) {
            set[i].until_us = until_us > set[i].until_us ? until_us : set[i].until_us;
            return;
        }
        if (set[i].until_us < place->until_us)
            place = &set[i];
    }
    *place = (struct slot){b->hash, from_us, until_us};
}

/* ---- the blocks of a prompt ---- */

struct cutter {
    struct cache_prompt *out;
    struct arena *arena;
    size_t cap;
    uint64_t hash;
    uint64_t bytes;
};

static struct cache_block *add_block(struct cutter *k, struct bytes content)
{
    if (k->out->n == k->cap) {
        size_t cap = k->cap == 0 ? 32 : 2 * k->cap;
        struct cache_block *v = ARENA_ARRAY(k->arena, struct cache_block, cap);
        if (k->out->n > 0)
            memcpy(v, k->out->v, sizeof *v * k->out->n);
        k->out->v = v;
        k->cap = cap;
    }
    k->hash = bytes_hash(content, k->hash);
    k->bytes += content.n;
    struct cache_block *b = &k->out->v[k->out->n++];
    *b = (struct cache_block){.hash = k->hash, .tokens = (k->bytes + 3) / 4};
    return b;
}

static enum cache_marker marker_of(yyjson_val *block)
{
    yyjson_val *control = yyjson_obj_get(block, "cache_control");
    if (!yyjson_is_obj(control))
        return MARKER_NONE;
    return bytes_is(json_tree_str(control, "ttl"), "1h") ? MARKER_1H : MARKER_5M;
}

/* A marker is no part of what is cached: it may move on while the prefix stays the same. */
static void add_value(struct cutter *k, const char *where, yyjson_val *block)
{
    struct buf content = {0};
    size_t i, n;
    yyjson_val *name, *value;
    buf_puts(&content, where);
    if (!yyjson_is_obj(block))
        buf_put(&content, json_tree_text(block, k->arena));
    yyjson_obj_foreach(block, i, n, name, value)
    {
        if (bytes_is(json_tree_bytes(name), "cache_control"))
            continue;
        buf_put(&content, json_tree_bytes(name));
        buf_put(&content, json_tree_text(value, k->arena));
    }
    add_block(k, buf_bytes(&content))->marker = marker_of(block);
    buf_fini(&content);
}

/* A text, or a list of blocks. */
static void add_content(struct cutter *k, const char *where, yyjson_val *content)
{
    size_t i, n;
    yyjson_val *block;
    if (content != NULL && !yyjson_is_arr(content))
        add_value(k, where, content);
    yyjson_arr_foreach(content, i, n, block) add_value(k, where, block);
}

static void cut_anthropic(struct cutter *k, yyjson_val *root)
{
    size_t i, n;
    yyjson_val *m;
    add_content(k, "tool:", yyjson_obj_get(root, "tools"));
    add_content(k, "system:", yyjson_obj_get(root, "system"));
    yyjson_arr_foreach(yyjson_obj_get(root, "messages"), i, n, m)
    {
        bool is_user = bytes_is(json_tree_str(m, "role"), "user");
        add_content(k, is_user ? "user:" : "assistant:", yyjson_obj_get(m, "content"));
    }
    if (k->out->n > 0 && marker_of(root) != MARKER_NONE)
        k->out->v[k->out->n - 1].marker = marker_of(root); /* the vendor's automatic form: the last block */
}

static void cut_openai(struct cutter *k, yyjson_val *root)
{
    struct buf text = {0};
    size_t i, n;
    yyjson_val *m;
    if (yyjson_obj_get(root, "tools") != NULL)
        buf_put(&text, json_tree_text(yyjson_obj_get(root, "tools"), k->arena));
    yyjson_arr_foreach(yyjson_obj_get(root, "messages"), i, n, m) buf_put(&text, json_tree_text(m, k->arena));
    for (size_t at = 0; at + PIECE_BYTES <= text.n; at += PIECE_BYTES)
        add_block(k, bytes_from(text.p + at, PIECE_BYTES))->marker = MARKER_5M;
    buf_fini(&text);
}

void cache_prompt_read(yyjson_val *root, enum shape_dialect d, struct arena *arena, struct cache_prompt *out)
{
    *out = (struct cache_prompt){0};
    struct cutter k = {.out = out, .arena = arena, .hash = bytes_hash(json_tree_str(root, "model"), 0)};
    if (d == SHAPE_ANTHROPIC)
        cut_anthropic(&k, root);
    else
        cut_openai(&k, root);
}

/* ---- reading and writing ---- */

static bool is_kept(const struct mock_cache *c, const struct cache_block *b)
{
    return b->marker != MARKER_NONE && b->tokens >= c->conf.min_tokens;
}

/* The longest prefix that is there, as the index of its last block + 1; 0 = none. */
static size_t longest(struct mock_cache *c, const struct cache_prompt *p, size_t look_back, uint64_t now_us)
{
    for (size_t at = p->n; at-- > 0;) {
        if (!is_kept(c, &p->v[at]))
            continue;
        size_t least = at > look_back ? at - look_back : 0;
        for (size_t i = at + 1; i-- > least;)
            if (find(c, p->v[i].hash, now_us) != NULL)
                return i + 1;
    }
    return 0;
}

void mock_cache_use(struct mock_cache *c, enum shape_dialect d, const struct cache_prompt *p, uint64_t now_us,
                    uint64_t begins_us, bool fails, struct cache_use *out)
{
    *out = (struct cache_use){0};
    size_t n_read = longest(c, p, d == SHAPE_ANTHROPIC ? LOOK_BACK : 0, now_us);
    uint64_t done = out->read = n_read > 0 ? p->v[n_read - 1].tokens : 0;
    int n_markers = 0;
    for (size_t i = 0; i < p->n && !fails; i++) {
        const struct cache_block *b = &p->v[i];
        if (!is_kept(c, b) || (d == SHAPE_ANTHROPIC && n_markers++ == MARKERS_MAX))
            continue;
        keep(c, b, now_us, i < n_read ? now_us : begins_us);
        if (d == SHAPE_ANTHROPIC && b->tokens > done) {
            *(b->marker == MARKER_1H ? &out->written_1h : &out->written_5m) += b->tokens - done;
            done = b->tokens;
        }
    }
    if (n_read > 0 && !fails) { /* a read entry lives on, marked or not */
        struct slot *s = find(c, p->v[n_read - 1].hash, now_us);
        if (s != NULL && s->until_us < now_us + ttl_us(c, MARKER_5M))
            s->until_us = now_us + ttl_us(c, MARKER_5M);
    }
}
