/* The settings as a table, and what reads a map of the file by it: unknown keys, types, ranges and words are dealt with
 * here once, for every section. What a section means together (references, exclusions) is checked by its own file. */
#ifndef RM_CONFIG_SETTINGS_H
#define RM_CONFIG_SETTINGS_H

#include "config/fault.h"

enum section {
    SECTION_FILE,
    SECTION_ADMIN,
    SECTION_KEY,
    SECTION_RATES,
    SECTION_TIER,
    SECTION_LIMITS,
    SECTION_PROVIDER,
    SECTION_ROUTE,
    SECTION_BREAKER,
    SECTION_AUTO,
    SECTION_HEDGE,
    SECTION_CACHE,
    SECTION_LINK,
    SECTION_SUPPORTS,
    SECTION_N
};

enum setting_kind {
    SETTING_TEXT,  /* const char *, NULL = none */
    SETTING_COUNT, /* the numbers: uint32_t, uint64_t or int64_t, by the member's size */
    SETTING_MS,
    SETTING_SEC,
    SETTING_BYTES,  /* with K, M, G or KiB, MiB, GiB */
    SETTING_MEMORY, /* the same, or per cent of the machine's */
    SETTING_TOKENS,
    SETTING_RATIO,       /* 0.5 -> permille */
    SETTING_PERCENT,     /* 2% or 0.5% -> hundredths of a per cent */
    SETTING_USD,         /* decimal text -> nano-dollars */
    SETTING_PER_REQUEST, /* decimal text, USD -> pico-dollars */
    SETTING_RATE,        /* decimal text, USD per million tokens -> pico-dollars a token */
    SETTING_WORD,        /* index among words; uint32_t */
    SETTING_TRISTATE,    /* true, false; enum tristate as uint32_t */
    SETTING_MAP,         /* const struct node *, NULL = none; read by its own file */
    SETTING_LIST,
    SETTING_ANY,
    SETTING_UNBUILT /* part of the design, refused */
};

enum { SETTING_RESTART = 1, SETTING_MAY_BE_OFF = 2 };

struct setting {
    enum section section;
    enum setting_kind kind;
    const char *name;
    size_t offset, size;
    uint64_t min, max;
    const char *standard; /* the default, as in the file */
    const char *words, *refused;
    unsigned flags;
    const char *text;
};

/* What the sections are read into. Texts live in the snapshot's arena, nodes in the scratch arena. */
struct file_values {
    const char *listen;
    const struct node *admin;
    uint32_t workers; /* 0 = by the cores */
    const char *ledger;
    uint32_t ledger_flush_ms;
    const char *access_log;
    uint32_t drain_timeout_ms, resolver;
    const char *price_file;
    const struct node *client_keys, *prices, *limits, *providers, *defaults, *routes;
};
struct admin_values {
    const char *listen, *secret_sha256;
};
struct key_values {
    const char *name, *sha256;
};
struct rates_values { /* rates as in struct price, -1 = not given */
    int64_t input, output, cache_read, cache_write_5m, cache_write_1h, reasoning, request;
    const struct node *tiers;
    const char *service, *valid_from, *valid_until, *version, *source, *date, *note;
};
struct tier_values {
    int64_t above;
    uint32_t inclusive;
    int64_t input, output, cache_read, cache_write_5m, cache_write_1h, reasoning;
};
struct provider_values {
    const char *dialect, *base_url, *vendor, *ca_file;
    uint32_t abort_billing; /* 0 = as the table says, else an enum abort_rule + 1 */
    const struct node *api_key, *api_key_file, *models, *headers, *unbuilt;
};
struct route_values {
    const char *model;
    uint32_t strategy;
    const struct node *order, *chain;
    uint32_t ttft_budget_ms /* 0 = auto */, connect_timeout_ms, idle_timeout_ms, deadline_ms, total_budget_ms;
    uint32_t ttft_budget_mode; /* 0 = enforce, 1 = shadow */
    const struct node *ttft_auto;
    uint32_t upstream_stream, retries, max_attempts, wait_retry_after_ms;
    const struct node *failover_on;
    uint32_t on_bad_event, resume;
    const struct node *breaker, *hedge, *cache;
    uint32_t keepalive_sec, keepalive_idle_stop_sec;
    int64_t keepalive_max_usd_per_day; /* nano-dollars */
    uint32_t heartbeat_ms;
    const struct node *client_routing;
};
struct link_values {
    const char *provider, *model;
    uint32_t ttft_budget_ms /* 0 = auto */, connect_timeout_ms, idle_timeout_ms, total_budget_ms, retries;
    int64_t context_window, max_output;
    uint32_t adjust;
    const struct node *supports, *set, *drop;
};
struct supports_values {
    uint32_t json_schema, tools, vision, prefill, stream_usage, cache_retention;
};

struct settings_reader {
    struct fault_log *log;
    struct arena *arena;   /* of the snapshot */
    uint64_t memory_bytes; /* of the machine */
};

/* The rows, in order; *n of them. */
const struct setting *settings_rows(size_t *n);
/* "a route", "a provider", … */
const char *settings_section_text(enum section s);
/* Writes the section's defaults into *values. */
void settings_defaults(const struct settings_reader *r, enum section s, void *values);
/* Reads a map's members into *values; those that are not there are left alone. Tells every fault; what was faulty is
 * left alone too. False when the node is no map. */
bool settings_read(const struct settings_reader *r, enum section s, const struct node *map, void *values);
/* "a whole number of milliseconds from 10 to 3600000, or off": what a setting expects. */
void settings_expected(const struct setting *s, struct buf *out);

#endif
