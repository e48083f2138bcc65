#include "lab/fb_config.h"

const char fb_config_wall[] = "127.0.0.1:9199";

struct scaled {
    const char *name;
    uint64_t min;
};

static const struct scaled scaled[] = {{"ttft_budget_ms", 10},  {"idle_timeout_ms", 10}, {"deadline_ms", 10},
                                       {"total_budget_ms", 10}, {"heartbeat_ms", 10},    {"window_ms", 1000},
                                       {"cooldown_max_ms", 10}, {"cooldown_ms", 10}};

size_t fb_config_replace(struct bytes text, struct bytes from, struct bytes to, struct buf *out)
{
    size_t n = 0, at;
    RM_ASSERT(from.n > 0);
    while ((at = bytes_find(text, from)) != SIZE_MAX) {
        buf_put(out, bytes_slice(text, 0, at));
        buf_put(out, to);
        text = bytes_slice(text, at + from.n, text.n);
        n++;
    }
    buf_put(out, text);
    return n;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* At text[at] stands a scaled name, in quotes or not, a colon and a number: *from, *to are the number's place. */
static const struct scaled *setting_at(struct bytes text, size_t at, size_t *from, size_t *to)
{
    if (at > 0 && is_name_byte(text.p[at - 1]))
        return NULL;
    for (size_t i = 0; i < RM_COUNTOF(scaled); i++) {
        if (!bytes_starts_with(bytes_slice(text, at, text.n), bytes_of(scaled[i].name)))
            continue;
        size_t p = at + strlen(scaled[i].name);
        if (p < text.n && text.p[p] == '"')
            p++;
        if (p == text.n || text.p[p] != ':')
            return NULL;
        for (p++; p < text.n && text.p[p] == ' ';)
            p++;
        for (*from = p; p < text.n && text.p[p] >= '0' && text.p[p] <= '9';)
            p++;
        *to = p;
        return *to > *from ? &scaled[i] : NULL;
    }
    return NULL;
}

void fb_config_speed(struct bytes text, unsigned speed, struct buf *out)
{
    size_t done = 0, from, to;
    uint64_t ms;
    RM_ASSERT(speed > 0);
    for (size_t at = 0; at < text.n; at++) {
        const struct scaled *s = setting_at(text, at, &from, &to);
        if (s == NULL || !bytes_to_u64(bytes_slice(text, from, to), &ms))
            continue;
        buf_put(out, bytes_slice(text, done, from));
        buf_put_u64(out, ms < s->min ? ms : ms / speed > s->min ? ms / speed : s->min);
        done = to;
        at = to - 1;
    }
    buf_put(out, bytes_slice(text, done, text.n));
}
