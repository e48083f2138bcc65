/* Routes have no birthday, so both forms show the epoch: clients need the member, and a made-up date would lie. */
#include "front/models.h"

#include "codec/json_write.h"

void models_openai(const struct config *c, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "object");
    jw_cstr(&w, "list");
    jw_key(&w, "data");
    jw_array(&w);
    for (size_t i = 0; i < c->n_routes; i++) {
        jw_object(&w);
        jw_key(&w, "id");
        jw_cstr(&w, c->routes[i].model);
        jw_key(&w, "object");
        jw_cstr(&w, "model");
        jw_key(&w, "created");
        jw_int(&w, 0);
        jw_key(&w, "owned_by");
        jw_cstr(&w, "ringmain");
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
}

static void put_id(struct json_writer *w, const char *name, const struct config *c, size_t i)
{
    jw_key(w, name);
    if (i < c->n_routes)
        jw_cstr(w, c->routes[i].model);
    else
        jw_null(w);
}

void models_anthropic(const struct config *c, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "data");
    jw_array(&w);
    for (size_t i = 0; i < c->n_routes; i++) {
        jw_object(&w);
        jw_key(&w, "type");
        jw_cstr(&w, "model");
        put_id(&w, "id", c, i);
        put_id(&w, "display_name", c, i);
        jw_key(&w, "created_at");
        jw_cstr(&w, "1970-01-01T00:00:00Z");
        jw_end(&w);
    }
    jw_end(&w);
    jw_key(&w, "has_more");
    jw_bool(&w, false);
    put_id(&w, "first_id", c, 0);
    put_id(&w, "last_id", c, c->n_routes > 0 ? c->n_routes - 1 : 0);
    jw_end(&w);
}

const char *models_nearest(const struct config *c, struct bytes asked)
{
    const char *best = NULL;
    unsigned limit = asked.n < 6 ? 1 : 3;
    if (asked.n > 128)
        return NULL;
    for (size_t i = 0; i < c->n_routes; i++) {
        unsigned d = bytes_distance(asked, bytes_of(c->routes[i].model), limit);
        if (d <= limit) {
            best = c->routes[i].model;
            limit = d > 0 ? d - 1 : 0;
        }
    }
    return best;
}
