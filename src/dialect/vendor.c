/* Which host is which vendor. A row matches the host itself and every host below it. */
#include "dialect/dialect.h"

struct host_row {
    const char *host, *vendor;
};

static const struct host_row hosts[] = {
    {"api.openai.com", "openai"},
    {"openai.azure.com", "azure"},
    {"services.ai.azure.com", "azure"},
    {"cognitiveservices.azure.com", "azure"},
    {"api.anthropic.com", "anthropic"},
    {"together.xyz", "together"},
    {"together.ai", "together"},
    {"fireworks.ai", "fireworks"},
    {"deepinfra.com", "deepinfra"},
    {"groq.com", "groq"},
    {"mistral.ai", "mistral"},
    {"deepseek.com", "deepseek"},
    {"openrouter.ai", "openrouter"},
    {"x.ai", "xai"},
    {"cerebras.ai", "cerebras"},
    {"ollama.com", "ollama"},
    {"z.ai", "zai"},
    {"bigmodel.cn", "zai"},
    {"moonshot.ai", "moonshot"},
    {"moonshot.cn", "moonshot"},
    {"aliyuncs.com", "alibaba"},
    {"perplexity.ai", "perplexity"},
    {"cohere.com", "cohere"},
    {"cohere.ai", "cohere"},
    {"novita.ai", "novita"},
    {"cloudflare.com", "cloudflare"},
    {"amazonaws.com", "bedrock"},
    {"googleapis.com", "google"},
    {"sambanova.ai", "sambanova"},
    {"nebius.com", "nebius"},
    {"nebius.ai", "nebius"},
    {"huggingface.co", "huggingface"},
    {"replicate.com", "replicate"},
    {"ai21.com", "ai21"},
    {"minimax.io", "minimax"},
    {"minimaxi.com", "minimax"},
};

static const char *const names[] = {
    "openai",    "azure",      "anthropic",   "together",  "fireworks", "deepinfra",  "groq",    "mistral",
    "deepseek",  "openrouter", "xai",         "cerebras",  "vllm",      "llamacpp",   "ollama",  "zai",
    "moonshot",  "alibaba",    "perplexity",  "cohere",    "novita",    "cloudflare", "bedrock", "google",
    "sambanova", "nebius",     "huggingface", "replicate", "ai21",      "minimax",    "generic", NULL};

static bool is_at_or_below(struct bytes host, struct bytes domain)
{
    if (host.n < domain.n || !bytes_eq_nocase(bytes_slice(host, host.n - domain.n, host.n), domain))
        return false;
    return host.n == domain.n || host.p[host.n - domain.n - 1] == '.';
}

/* Without a port and a closing dot. */
static struct bytes bare_host(struct bytes host)
{
    size_t colon = bytes_find_byte(host, ':');
    if (colon != SIZE_MAX && host.n > 0 && host.p[0] != '[')
        host = bytes_slice(host, 0, colon);
    if (host.n > 0 && host.p[host.n - 1] == '.')
        host.n--;
    return host;
}

struct bytes vendor_from_host(struct bytes host)
{
    host = bare_host(host);
    for (size_t i = 0; i < RM_COUNTOF(hosts); i++)
        if (is_at_or_below(host, bytes_of(hosts[i].host)))
            return bytes_of(hosts[i].vendor);
    return BYTES("generic");
}

bool vendor_is_known(struct bytes vendor)
{
    for (size_t i = 0; names[i] != NULL; i++)
        if (bytes_is(vendor, names[i]))
            return true;
    return false;
}

const char *const *vendor_names(void)
{
    return names;
}
