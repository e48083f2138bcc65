/* Answers of providers, any bytes: as a stream in one piece and byte by byte (the events must be the same), as a whole
 * body, and as an error answer. The first byte picks dialect and switches. */
#include "../unit/dialect/answer_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed(const struct dialect *d, bool strips, struct bytes body, size_t step, struct buf *lines)
{
    struct decoder dec;
    struct encoder e[4];
    struct buf bytes[4] = {{0}};
    struct kit_sink sink = {.lines = lines, .n_encoders = 4};
    for (int i = 0; i < 4; i++) {
        const struct encoder_options o = {.is_stream = i < 2, .wants_usage = strips, .model = BYTES("m"), .id_seed = 1};
        encoder_init(&e[i], i % 2 ? &kit_anthropic : &kit_openai, &o);
        sink.encoders[i] = &e[i];
        sink.bytes[i] = &bytes[i];
    }
    decoder_init(&dec, d, BYTES("generic"), KIT_DEPTH, strips);
    kit_stream(&dec, body, body.n, step, &sink);
    for (int i = 0; i < 4; i++) {
        if (decoder_is_complete(&dec))
            encoder_end(&e[i], &bytes[i]);
        encoder_fini(&e[i]);
        buf_fini(&bytes[i]);
    }
    decoder_fini(&dec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 16)
        return 0;
    const struct dialect *d = data[0] & 1 ? &kit_anthropic : &kit_openai;
    struct bytes body = bytes_from(data + 1, size - 1);
    struct buf at_once = {0}, bytewise = {0};
    feed(d, (data[0] & 2) != 0, body, 0, &at_once);
    feed(d, (data[0] & 2) != 0, body, 1, &bytewise);
    RM_ASSERT(bytes_eq(buf_bytes(&at_once), buf_bytes(&bytewise)));
    struct decoder dec;
    struct decoded out;
    decoder_init(&dec, d, BYTES("generic"), KIT_DEPTH, false);
    decoder_whole(&dec, body, &out);
    decoder_fini(&dec);
    struct failure f;
    struct fields none = {NULL, 0};
    dialect_classify(d, BYTES("openrouter"), 400 + (data[0] >> 2), &none, body, 1796205600000, &f);
    buf_fini(&at_once);
    buf_fini(&bytewise);
    return 0;
}
