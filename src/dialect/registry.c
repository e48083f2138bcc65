/* The dialects: one row each. */
#include "dialect/answer_impl.h"
#include "dialect/request_impl.h"

static const struct dialect rows[] = {
    {.kind = DIALECT_OPENAI,
     .name = "openai",
     .client_path = "/v1/chat/completions",
     .read_call = openai_read_call,
     .parse = openai_parse,
     .render = openai_render,
     .decoder = &openai_decoder,
     .encoder = &openai_encoder,
     .collector = &openai_collector,
     .classify = openai_classify},
    {.kind = DIALECT_ANTHROPIC,
     .name = "anthropic",
     .client_path = "/v1/messages",
     .read_call = anthropic_read_call,
     .parse = anthropic_parse,
     .render = anthropic_render,
     .decoder = &anthropic_decoder,
     .encoder = &anthropic_encoder,
     .collector = &anthropic_collector,
     .classify = anthropic_classify},
};

/* Not spoken yet: only its errors are told in its form. */
static const struct dialect gemini = {.kind = DIALECT_GEMINI, .name = "gemini"};

const struct dialect *dialect_by_name(struct bytes name)
{
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (bytes_is(name, rows[i].name))
            return &rows[i];
    return NULL;
}

const struct dialect *dialect_by_path(struct bytes path)
{
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (bytes_is(path, rows[i].client_path))
            return &rows[i];
    return NULL;
}

const struct dialect *dialect_of_errors(struct bytes path)
{
    struct bytes messages = BYTES("/v1/messages");
    if (bytes_starts_with(path, messages) && (path.n == messages.n || path.p[messages.n] == '/'))
        return dialect_by_name(BYTES("anthropic"));
    if (bytes_starts_with(path, BYTES("/v1beta/")))
        return &gemini;
    return dialect_by_name(BYTES("openai"));
}
