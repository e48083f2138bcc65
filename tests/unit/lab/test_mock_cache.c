/* The prompt cache: what is read, written and gone, at times that the test sets. */
#include "unit.h"

#include "lab/mock_cache.h"

enum { S = 1000000 };

struct stage {
    struct mock_cache *cache;
    struct arena arena;
    enum shape_dialect dialect;
};

static void stage_init(struct stage *s, enum shape_dialect d)
{
    struct mock_cache_conf c = {.ttl_ms = 300000, .min_tokens = 128};
    *s = (struct stage){.cache = mock_cache_new(&c), .dialect = d};
}

static void stage_fini(struct stage *s)
{
    mock_cache_free(s->cache);
    arena_fini(&s->arena);
}

static struct cache_use ask_as(struct stage *s, const char *body, uint64_t now_us, uint64_t begins_us, bool fails)
{
    struct cache_prompt p;
    struct cache_use use;
    yyjson_val *root;
    if (json_tree_parse(bytes_of(body), 32, &s->arena, &root) != ERR_OK)
        fail_msg("no JSON: %s", body);
    cache_prompt_read(root, s->dialect, &s->arena, &p);
    mock_cache_use(s->cache, s->dialect, &p, now_us, begins_us, fails, &use);
    return use;
}

static struct cache_use ask(struct stage *s, const char *body, uint64_t now_us)
{
    return ask_as(s, body, now_us, now_us, false);
}

/* Some 400 tokens, all alike but for the first letter. */
static const char *text(struct stage *s, char c)
{
    struct buf b = {0};
    buf_putc(&b, c);
    for (int i = 0; i < 1600; i++)
        buf_putc(&b, 'x');
    const char *kept = arena_dup(&s->arena, buf_bytes(&b)).p;
    buf_fini(&b);
    return kept;
}

#define MARK ",\"cache_control\":{\"type\":\"ephemeral\"}"
#define MARK_1H ",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}"

/* {model, system: [block], messages: [user]} with a marker on the system's block. */
static const char *anthropic(struct stage *s, const char *model, char c, const char *mark, const char *user)
{
    return arena_printf(&s->arena,
                        "{\"model\":\"%s\",\"system\":[{\"type\":\"text\",\"text\":\"%s\"%s}],\"messages\":[{\"role\":"
                        "\"user\",\"content\":\"%s\"}]}",
                        model, text(s, c), mark, user)
        .p;
}

static void anthropic_markers(void **state)
{
    struct stage s;
    stage_init(&s, SHAPE_ANTHROPIC);
    struct cache_use none = ask(&s, anthropic(&s, "m", 'a', "", "hi"), S), first, again;
    assert_true(none.read == 0 && none.written_5m == 0 && none.written_1h == 0);
    first = ask(&s, anthropic(&s, "m", 'a', MARK, "hi"), 2 * S);
    assert_true(first.read == 0 && first.written_5m > 400 && first.written_5m < 420 && first.written_1h == 0);
    again = ask(&s, anthropic(&s, "m", 'a', MARK, "something else"), 3 * S);
    assert_true(again.read == first.written_5m && again.written_5m == 0);
    assert_int_equal(ask(&s, anthropic(&s, "m", 'b', MARK, "hi"), 3 * S).read, 0);
    assert_int_equal(ask(&s, anthropic(&s, "other", 'a', MARK, "hi"), 3 * S).read, 0); /* a model has its own */
    struct cache_use hour = ask(&s, anthropic(&s, "m", 'c', MARK_1H, "hi"), 3 * S);
    assert_true(hour.written_1h > 400 && hour.written_5m == 0);
    stage_fini(&s);
}

static void lives_from_its_last_use(void **state)
{
    struct stage s;
    stage_init(&s, SHAPE_ANTHROPIC);
    const char *five = anthropic(&s, "m", 'a', MARK, "hi"), *hour = anthropic(&s, "m", 'h', MARK_1H, "hi");
    ask(&s, five, S);
    ask(&s, hour, S);
    assert_true(ask(&s, five, S + UINT64_C(299) * S).read > 0);
    assert_true(ask(&s, five, S + UINT64_C(598) * S).read > 0); /* refreshed */
    assert_true(ask(&s, five, S + UINT64_C(898) * S).written_5m > 0);
    assert_true(ask(&s, hour, S + UINT64_C(3599) * S).read > 0);
    assert_true(ask(&s, hour, S + UINT64_C(7199) * S).written_1h > 0);
    mock_cache_clear(s.cache);
    assert_int_equal(ask(&s, five, S).read, 0);
    stage_fini(&s);
}

static void readable_once_the_answer_has_begun(void **state)
{
    struct stage s;
    stage_init(&s, SHAPE_ANTHROPIC);
    const char *body = anthropic(&s, "m", 'a', MARK, "hi");
    ask_as(&s, body, S, S + 400000, false);
    assert_true(ask_as(&s, body, S + 100000, S + 500000, false).written_5m > 0); /* both pay */
    assert_true(ask(&s, body, S + 400000).read > 0);
    const char *refused = anthropic(&s, "m", 'b', MARK, "hi");
    assert_int_equal(ask_as(&s, refused, S, S, true).written_5m, 0);
    assert_int_equal(ask(&s, refused, S + 1).read, 0);
    stage_fini(&s);
}

/* A conversation of n user turns of some text, a marker on the last. */
static const char *turns(struct stage *s, int n, int marked)
{
    struct buf b = {0};
    buf_puts(&b, "{\"model\":\"m\",\"messages\":[");
    for (int i = 0; i < n; i++)
        buf_printf(&b, "%s{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"%d %s\"%s}]}", i > 0 ? "," : "",
                   i, text(s, 't'), i == marked ? MARK : "");
    buf_puts(&b, "]}");
    const char *kept = arena_dup(&s->arena, buf_bytes(&b)).p;
    buf_fini(&b);
    return kept;
}

static void looks_back_twenty_blocks(void **state)
{
    struct stage s;
    stage_init(&s, SHAPE_ANTHROPIC);
    uint64_t two = ask(&s, turns(&s, 2, 1), S).written_5m;
    struct cache_use near = ask(&s, turns(&s, 22, 21), 2 * S); /* block 1 is 20 before block 21 */
    assert_int_equal(near.read, two);
    mock_cache_clear(s.cache);
    ask(&s, turns(&s, 2, 1), S);
    assert_int_equal(ask(&s, turns(&s, 23, 22), 2 * S).read, 0);
    stage_fini(&s);
}

static void openai_is_automatic(void **state)
{
    struct stage s;
    stage_init(&s, SHAPE_OPENAI);
    struct cache_use u = ask(&s, turns(&s, 3, -1), S);
    assert_true(u.read == 0 && u.written_5m == 0); /* written, but not told */
    u = ask(&s, turns(&s, 4, -1), 2 * S);
    assert_true(u.read >= 1152 && u.read % 128 == 0);
    assert_int_equal(ask(&s, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"short\"}]}", S).read, 0);
    stage_fini(&s);
}

/* More prefixes than there is place for: old ones go, nothing else happens. */
static void is_bounded(void **state)
{
    struct stage s;
    stage_init(&s, SHAPE_OPENAI);
    for (int i = 0; i < 3000; i++) {
        struct cache_prompt p = {.v = ARENA_ARRAY(&s.arena, struct cache_block, 10), .n = 10};
        struct cache_use use;
        for (size_t k = 0; k < p.n; k++)
            p.v[k] = (struct cache_block){(uint64_t)i * 10 + k + 1, 128 * (k + 1), MARKER_5M};
        mock_cache_use(s.cache, SHAPE_OPENAI, &p, (uint64_t)(i + 1) * 1000, (uint64_t)(i + 1) * 1000, false, &use);
        assert_int_equal(use.read, 0);
        mock_cache_use(s.cache, SHAPE_OPENAI, &p, (uint64_t)(i + 1) * 1000, (uint64_t)(i + 1) * 1000, false, &use);
        assert_int_equal(use.read, 1280);
    }
    stage_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anthropic_markers),
        cmocka_unit_test(lives_from_its_last_use),
        cmocka_unit_test(readable_once_the_answer_has_begun),
        cmocka_unit_test(looks_back_twenty_blocks),
        cmocka_unit_test(openai_is_automatic),
        cmocka_unit_test(is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
