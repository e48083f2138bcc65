/* Recorded streams and bodies: every split of the bytes gives the same events, the ends are seen, and the usage is what
 * the recording says. Skipped where the recordings are not there. */
#include "unit.h"

#include "answer_kit.h"

struct recording {
    const char *file;
    const char *vendor;
    bool is_complete, has_error;
    struct usage usage; /* last one; all -1 = none */
};

#define NONE                   \
    {                          \
        -1, -1, -1, -1, -1, -1 \
    }

static const struct recording recordings[] = {
    {"alibaba/stream-tool-call.sse", "alibaba", true, false, {295, 0, -1, -1, 22, -1}},
    {"anthropic/stream-cache-cumulative-delta.sse", "anthropic", true, false, {281, 55096, 0, 0, 91, -1}},
    {"anthropic/stream-cache-read.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-cache-write.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-citations.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-duplicate-message-start.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-fallback-block.sse", "anthropic", true, false, {820, 0, 0, 0, 264, -1}},
    {"anthropic/stream-message-delta-input-tokens.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-parallel-tool-use.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-redacted-thinking.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-refusal-mid.sse", "anthropic", true, false, {28, 0, 0, 0, 106, 67}},
    {"anthropic/stream-refusal.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-server-tool-mcp.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-spliced-message-start.sse", "anthropic", true, false, {17, -1, -1, -1, 65, -1}},
    {"anthropic/stream-stop-sequence.sse", "anthropic", true, false, {16, 0, 0, 0, 28, -1}},
    {"anthropic/stream-text.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-thinking-adaptive.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-thinking-then-tool.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-thinking.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-tool-use.sse", "anthropic", true, false, NONE},
    {"anthropic/stream-web-fetch.sse", "anthropic", true, false, NONE},
    {"synthetic/anthropic-stream-overloaded-after-start.sse", "anthropic", false, true, NONE},
    {"synthetic/anthropic-stream-overloaded-first.sse", "anthropic", false, true, NONE},
    {"synthetic/anthropic-stream-overloaded-mid.sse", "anthropic", false, true, NONE},
    {"azure/chat-stream-first-chunk-prompt-filter.sse", "azure", true, false, NONE},
    {"azure/chat-stream-model-router.sse", "azure", true, false, NONE},
    {"cerebras/stream-structured-tools.sse", "cerebras", true, false, NONE},
    {"deepseek/stream-reasoning.sse", "deepseek", true, false, NONE},
    {"deepseek/stream-text-long.sse", "deepseek", true, false, NONE},
    {"deepseek/stream-text.sse", "deepseek", true, false, NONE},
    {"deepseek/stream-tool.sse", "deepseek", true, false, NONE},
    {"gpustack/chat-stream.sse", "vllm", true, false, NONE},
    {"groq/stream-error-tool-use-failed.sse", "groq", false, true, NONE},
    {"groq/stream-text.sse", "groq", true, false, NONE},
    {"groq/stream-tool-call.sse", "groq", true, false, NONE},
    {"huggingface-router/stream-together-reasoning.sse", "together", true, false, NONE},
    {"mistral/stream-incremental-tool-call.sse", "mistral", true, false, {43, 128, -1, -1, 14, -1}},
    {"mistral/stream-text.sse", "mistral", true, false, NONE},
    {"mistral/stream-thinking-array.sse", "mistral", true, false, NONE},
    {"mistral/stream-tool.sse", "mistral", true, false, {31, 128, -1, -1, 28, -1}},
    {"moonshot/stream.sse", "moonshot", true, false, {9, -1, -1, -1, 12, 7}},
    {"ollama/chat-stream-cloud.sse", "ollama", true, false, NONE},
    {"ollama/chat-stream.sse", "ollama", true, false, NONE},
    {"openai/chat-stream-detailed-usage.sse", "openai", true, false, NONE},
    {"openai/chat-stream-include-usage.sse", "openai", true, false, NONE},
    {"openai/chat-stream-moderation.sse", "openai", true, false, NONE},
    {"openai/chat-stream-n2.sse", "openai", true, false, NONE},
    {"openai/chat-stream-parallel-tools.sse", "openai", true, false, NONE},
    {"openai/chat-stream-text-no-usage.sse", "openai", true, false, NONE},
    {"openai/chat-stream-text-usage-obfuscation.sse", "openai", true, false, NONE},
    {"openai/chat-stream-tools-usage.sse", "openai", true, false, NONE},
    {"openai/chat-stream-web-search-annotations.sse", "openai", true, false, NONE},
    {"openai/stream-anthropic-fallback-tool-call.sse", "openai", true, false, NONE},
    {"openrouter/stream-cache-empty-choices.sse", "openrouter", true, false, NONE},
    {"openrouter/stream-comments-text.sse", "openrouter", true, false, NONE},
    {"openrouter/stream-error-mid-stream.sse", "openrouter", false, true, {43, 0, -1, -1, 10, 10}},
    {"openrouter/stream-reasoning-details.sse", "openrouter", true, false, NONE},
    {"openrouter/stream-tool.sse", "openrouter", true, false, NONE},
    {"perplexity/stream.sse", "perplexity", true, false, NONE},
    {"synthetic/deepseek-stream-keep-alive.sse", "deepseek", true, false, {5, 0, -1, -1, 1, -1}},
    {"synthetic/openai-stream-eof-without-done.sse", "openai", true, false, NONE},
    {"synthetic/openai-stream-error-after-content.sse", "openai", false, true, NONE},
    {"synthetic/openai-stream-error-before-content.sse", "openai", false, true, NONE},
    {"synthetic/openai-stream-multiline-data-crlf.sse", "openai", true, false, NONE},
    {"synthetic/openai-stream-truncated.sse", "openai", false, false, NONE},
    {"synthetic/vllm-stream-error.sse", "vllm", false, true, NONE},
    {"together/stream-text.sse", "together", true, false, {41, 0, -1, -1, 15, -1}},
    {"vllm/chat-stream.sse", "vllm", true, false, NONE},
    {"xai/chat-stream-tool-call.sse", "xai", true, false, NONE},
    {"xai/chat-stream.sse", "xai", true, false, {1, 11, -1, -1, 291, 290}},
    {"zai/stream-reasoning-content.sse", "zai", true, false, NONE},
};

/* Reads a recording; false = the recordings are not there. */
static bool load(const char *file, struct buf *out)
{
    const char *folder = getenv("RINGMAIN_FIXTURES");
    char path[600];
    buf_clear(out);
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", file);
    return folder != NULL && kit_read(path, out);
}

static const struct dialect *dialect_of(const struct recording *r)
{
    return strcmp(r->vendor, "anthropic") == 0 ? &kit_anthropic : &kit_openai;
}

static uint64_t hash_of(const struct recording *r, struct bytes body, size_t cut, size_t step, struct decoder *d,
                        struct buf *lines)
{
    struct kit_sink sink = {.lines = lines};
    buf_clear(lines);
    decoder_init(d, dialect_of(r), bytes_of(r->vendor), KIT_DEPTH, true);
    kit_stream(d, body, cut, step, &sink);
    return bytes_hash(buf_bytes(lines), 0);
}

static void check_end(const struct recording *r, const struct decoder *d, const struct buf *lines)
{
    if (decoder_is_complete(d) != r->is_complete || d->has_error != r->has_error)
        fail_msg("%s: complete %d, error %d\n%.*s", r->file, decoder_is_complete(d), d->has_error, (int)lines->n,
                 lines->p);
    if (!usage_is_known(&r->usage))
        return;
    struct buf want = {0};
    kit_usage(&want, &r->usage);
    buf_putc(&want, '\n');
    if (bytes_find(buf_bytes(lines), buf_bytes(&want)) == SIZE_MAX)
        fail_msg("%s: no%.*s in\n%.*s", r->file, (int)want.n, want.p, (int)lines->n, lines->p);
    buf_fini(&want);
}

/* All offsets in the first KB, around the ends of the events after it, and one in 97 everywhere. */
static bool is_tried(struct bytes body, size_t cut)
{
    if (cut <= 1024 || cut % 97 == 0)
        return true;
    for (size_t i = cut > 3 ? cut - 3 : 0; i < cut + 3 && i + 1 < body.n; i++)
        if (body.p[i] == '\n' && (body.p[i + 1] == '\n' || body.p[i + 1] == '\r'))
            return cut <= 12000;
    return false;
}

static void check_recording(const struct recording *r, struct bytes body)
{
    struct decoder d;
    struct buf lines = {0}, again = {0};
    uint64_t whole = hash_of(r, body, body.n, 0, &d, &lines);
    check_end(r, &d, &lines);
    decoder_fini(&d);
    for (size_t cut = 1; cut < body.n; cut++) {
        if (!is_tried(body, cut))
            continue;
        if (hash_of(r, body, cut, 0, &d, &again) != whole)
            fail_msg("%s: cut at %zu gives other events", r->file, cut);
        decoder_fini(&d);
    }
    if (hash_of(r, body, 0, 1, &d, &again) != whole)
        fail_msg("%s: byte by byte gives other events", r->file);
    decoder_fini(&d);
    buf_fini(&lines);
    buf_fini(&again);
}

static void streams_decode_alike_at_every_split(void **state)
{
    (void)state;
    struct buf body = {0};
    if (!load(recordings[0].file, &body)) {
        print_message("skipped: no recorded fixtures\n");
        skip();
    }
    for (size_t i = 0; i < RM_COUNTOF(recordings); i++) {
        if (!load(recordings[i].file, &body))
            fail_msg("%s is missing", recordings[i].file);
        check_recording(&recordings[i], buf_bytes(&body));
    }
    buf_fini(&body);
}

static const struct recording bodies[] = {
    {"anthropic/cache-write-1h-split.json", "anthropic", true, false, NONE},
    {"anthropic/max-tokens.json", "anthropic", true, false, NONE},
    {"anthropic/text.json", "anthropic", true, false, NONE},
    {"anthropic/tool-use.json", "anthropic", true, false, NONE},
    {"azure/chat-basic.json", "azure", true, false, NONE},
    {"azure/chat-content-filter-finish.json", "azure", true, false, NONE},
    {"cerebras/chat.json", "cerebras", true, false, NONE},
    {"deepseek/chat-cache-hit.json", "deepseek", true, false, NONE},
    {"groq/chat.json", "groq", true, false, NONE},
    {"openai/chat-audio-output.json", "openai", true, false, NONE},
    {"openai/chat-cached-tokens.json", "openai", true, false, NONE},
    {"openai/chat-length.json", "openai", true, false, NONE},
    {"openai/chat-n2.json", "openai", true, false, NONE},
    {"openai/chat-reasoning.json", "openai", true, false, NONE},
    {"openai/chat-refusal.json", "openai", true, false, NONE},
    {"openai/chat-text.json", "openai", true, false, NONE},
    {"openai/chat-tools-parallel.json", "openai", true, false, NONE},
    {"synthetic/deepseek-json-keep-alive.json", "deepseek", true, false, {5, 0, -1, -1, 1, -1}},
    {"together/tool-call.json", "together", true, false, {16, 0, -1, -1, 216, -1}},
};

static void bodies_decode(void **state)
{
    (void)state;
    struct buf body = {0}, lines = {0};
    if (!load(bodies[0].file, &body)) {
        print_message("skipped: no recorded fixtures\n");
        skip();
    }
    for (size_t i = 0; i < RM_COUNTOF(bodies); i++) {
        struct decoder d;
        struct decoded out;
        assert_true(load(bodies[i].file, &body));
        buf_clear(&lines);
        decoder_init(&d, dialect_of(&bodies[i]), bytes_of(bodies[i].vendor), KIT_DEPTH, false);
        decoder_whole(&d, buf_bytes(&body), &out);
        kit_batch(&lines, &out);
        check_end(&bodies[i], &d, &lines);
        assert_true(d.has_token && d.has_done);
        assert_true(bytes_find(buf_bytes(&lines), BYTES("usage ")) != SIZE_MAX);
        decoder_fini(&d);
    }
    buf_fini(&body);
    buf_fini(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_decode_alike_at_every_split),
        cmocka_unit_test(bodies_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
