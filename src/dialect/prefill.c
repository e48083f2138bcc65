#include "dialect/prefill.h"

#include "codec/json_scan.h"
#include "codec/json_write.h"

enum err prefill_put(struct bytes body, struct bytes text, unsigned max_depth, struct arena *a, struct bytes *out)
{
    struct json_member messages = {.name = "messages"};
    struct json_scan scan;
    if (json_scan(body, max_depth, &messages, 1, &scan) != ERR_OK || messages.type != JSON_ARRAY)
        return ERR_UNSUPPORTED;
    size_t end = messages.value_end - 1; /* its bracket */
    struct bytes inside = bytes_slice(body, messages.value_at + 1, end);
    if (bytes_trim(inside).n == 0)
        return ERR_UNSUPPORTED;
    struct buf b = {0};
    struct json_writer w;
    buf_put(&b, bytes_slice(body, 0, end));
    buf_puts(&b, ",{\"role\":\"assistant\",\"content\":");
    jw_init(&w, &b);
    jw_string(&w, text);
    buf_putc(&b, '}');
    buf_put(&b, bytes_slice(body, end, body.n));
    *out = arena_dup(a, buf_bytes(&b));
    buf_fini(&b);
    return ERR_OK;
}
