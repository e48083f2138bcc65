#include "lab/prompt.h"

#include "codec/json_write.h"
#include "http/head.h"

enum { BYTES_PER_TOKEN = 4 };

static const char system_text[] =
    "You help the people who keep the street lights of a town alight. Each street hangs on a ring that is fed from two "
    "sides, so that one broken feeder darkens nobody. Answer shortly, name the feeder, and say what to look at first. ";
static const char user_text[] = "Feeder seven reports half its voltage since noon and two lamps flicker. What now? ";

static void put_text(struct json_writer *w, const char *text, size_t n_bytes)
{
    struct buf b = {0};
    while (b.n < n_bytes)
        buf_put(&b, bytes_slice(bytes_of(text), 0, n_bytes - b.n));
    jw_string(w, buf_bytes(&b));
    buf_fini(&b);
}

static void put_message(struct json_writer *w, const char *role, const char *text, unsigned tokens)
{
    jw_object(w);
    jw_key(w, "role");
    jw_cstr(w, role);
    jw_key(w, "content");
    put_text(w, text, (size_t)tokens * BYTES_PER_TOKEN);
    jw_end(w);
}

void prompt_body(const struct prompt *p, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "model");
    jw_cstr(&w, p->model);
    jw_key(&w, "stream");
    jw_bool(&w, true);
    jw_key(&w, "stream_options");
    jw_object(&w);
    jw_key(&w, "include_usage");
    jw_bool(&w, true);
    jw_end(&w);
    if (p->max_tokens > 0) {
        jw_key(&w, "max_tokens");
        jw_uint(&w, p->max_tokens);
    }
    jw_key(&w, "messages");
    jw_array(&w);
    if (p->system_tokens > 0)
        put_message(&w, "system", system_text, p->system_tokens);
    put_message(&w, "user", user_text, p->user_tokens > 0 ? p->user_tokens : 1);
    jw_end(&w);
    jw_end(&w);
}

void prompt_head(struct buf *out, struct bytes path, struct bytes host, const char *key, size_t body_bytes)
{
    head_put_request(out, "POST", path, host);
    head_put_field(out, "content-type", BYTES("application/json"));
    head_put_field(out, "accept", BYTES("text/event-stream"));
    if (key[0] != '\0') {
        struct buf value = {0};
        buf_printf(&value, "Bearer %s", key);
        head_put_field(out, "authorization", buf_bytes(&value));
        buf_fini(&value);
    }
    head_put_field_u64(out, "content-length", body_bytes);
    head_put_end(out);
}
