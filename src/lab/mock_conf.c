#include "lab/mock_conf.h"

#include "base/check.h"

enum { LIST_BYTES_MAX = 1024, RATE_RETRY_AFTER_MS = 1000 };

void mock_conf_init(struct mock_conf *c)
{
    *c = (struct mock_conf){.name = "",
                            .listen = "127.0.0.1:9101",
                            .model = "",
                            .key = "",
                            .words = "The lamps stay lit because the ring has two ways round.",
                            .ttft_ms = spread_fixed(40),
                            .tokens = spread_fixed(16),
                            .gap_us = 10000,
                            .rate = {.burst = 1, .retry_after_ms = RATE_RETRY_AFTER_MS},
                            .seed = 1,
                            .fb_speed = 1};
}

static const char *copy(const char *text, struct arena *arena)
{
    return text == NULL ? NULL : arena_dup(arena, bytes_of(text)).p;
}

void mock_conf_copy(const struct mock_conf *from, struct arena *arena, struct mock_conf *to)
{
    *to = *from;
    const char **const texts[] = {&to->name,  &to->listen,   &to->model,  &to->key,
                                  &to->words, &to->tls_cert, &to->tls_key};
    for (size_t i = 0; i < RM_COUNTOF(texts); i++)
        *texts[i] = copy(*texts[i], arena);
    if (from->n_models == 0)
        return;
    const char **models = ARENA_ARRAY(arena, const char *, from->n_models);
    for (size_t i = 0; i < from->n_models; i++)
        models[i] = copy(from->models[i], arena);
    to->models = models;
}

bool mock_conf_faults(struct mock_conf *c, const char *value, char separator)
{
    char list[LIST_BYTES_MAX];
    struct fault faults[FAULT_LIST_MAX];
    struct bytes bad;
    if (strlen(value) >= sizeof list)
        return false;
    memcpy(list, value, strlen(value) + 1);
    for (char *p = list; *p != '\0'; p++)
        *p = *p == separator ? ',' : *p;
    if (!fault_parse_list(bytes_of(list), faults, &c->n_rules, &bad))
        return false;
    for (size_t i = 0; i < c->n_rules; i++)
        rule_init(&c->rules[i], &faults[i]);
    return true;
}
