/* What a Claude model takes, read from its name: claude-3-5-haiku-20241022, claude-sonnet-4-5, claude-opus-4.1,
 * anthropic/claude-3.7-sonnet. A name that tells no generation is taken for a new model where Anthropic itself serves
 * it, and for a stranger that merely speaks this dialect elsewhere. (Messages notes, sections 2, 8 and 9; 2026-11-30.)
 */
#include "dialect/request_impl.h"

enum { GENERATION_NEW = 10000 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number of at most two digits at `at`; longer ones are dates. */
static bool small_number(struct bytes name, size_t at, unsigned *out, size_t *end)
{
    size_t n = 0;
    *out = 0;
    while (at + n < name.n && is_digit(name.p[at + n]) && n < 3)
        *out = *out * 10 + (unsigned)(name.p[at + n++] - '0');
    *end = at + n;
    return n == 1 || n == 2;
}

/* 100 × major + minor: claude-opus-4-6 is 406. 0 = no Claude at all. */
static unsigned generation_of(struct bytes name)
{
    size_t at = bytes_find_nocase(name, BYTES("claude"));
    if (at == SIZE_MAX)
        return 0;
    for (at += 6; at < name.n; at++) {
        unsigned major, minor;
        size_t end, minor_end;
        if (!is_digit(name.p[at]) || is_digit(name.p[at - 1]) || !small_number(name, at, &major, &end))
            continue;
        bool has_more = end + 1 < name.n && (name.p[end] == '-' || name.p[end] == '.');
        if (has_more && small_number(name, end + 1, &minor, &minor_end))
            return major * 100 + minor;
        return major * 100;
    }
    return GENERATION_NEW;
}

struct claude claude_of(struct bytes model, struct bytes vendor)
{
    unsigned g = generation_of(model);
    if (g == 0 && bytes_is(vendor, "anthropic"))
        g = GENERATION_NEW;
    if (g == 0) /* another vendor's model: the dialect as it was first spoken */
        return (struct claude){
            .takes_sampling = true, .takes_both = true, .takes_thinking = true, .takes_schema = true};
    return (struct claude){.takes_sampling = g <= 406,
                           .takes_both = g < 400,
                           .takes_thinking = g >= 307,
                           .is_adaptive = g >= 406,
                           .takes_xhigh = g >= 407,
                           .takes_schema = g >= 401};
}
