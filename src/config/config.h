/* The configuration as one immutable snapshot. Loaded whole from YAML (JSON is YAML), checked whole: all faults at
 * once. Settings are rows of settings.def; defaults there are the contract (DESIGN 5). Once published it is never
 * written; counted once per core. */
#ifndef RM_CONFIG_CONFIG_H
#define RM_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "config/parse.h"
#include "config/policy.h"
#include "model/money.h"
#include "model/outcome.h"
#include "model/profile.h"
#include "model/record.h"
#include "price/abort.h"

#include <stdatomic.h>

enum { NAME_BYTES_MAX = 64 };

struct url { /* of base_url */
    bool is_tls;
    const char *host; /* without brackets */
    uint16_t port;
    const char *path;      /* "" or "/v1", no trailing slash */
    const char *authority; /* for Host: host[:port] */
};

struct model_name {
    const char *client, *upstream;
};
struct header_line {
    const char *name, *value;
};

struct provider_conf {
    const char *name;
    const char *dialect; /* "openai", "anthropic" */
    const char *vendor;  /* "" = from the host */
    struct url url;
    struct bytes api_key;     /* secret; n 0 = none */
    bool is_off;              /* its key's variable is empty: ${NAME:-} */
    const char *off_variable; /* name of that variable, for the message */
    struct model_name *models;
    size_t n_models;
    struct header_line *headers;
    size_t n_headers;
    const char *ca_file;                        /* NULL = system store */
    uint16_t index;                             /* in config->providers */
    uint16_t credential_id;                     /* filled by plan_bind before the snapshot is published */
    struct abort_billing aborts[ABORT_N_WHENS]; /* of an attempt without a whole answer */
    void *tls;   /* struct tls_context *, filled by serve when the snapshot is made; NULL for http:// */
    void *mould; /* struct request_mould *, likewise; NULL = none */
};

enum adjust { ADJUST_CLAMP, ADJUST_SKIP };
enum upstream_stream { UPSTREAM_AUTO, UPSTREAM_ON, UPSTREAM_OFF };
enum bad_event { BAD_EVENT_FAIL, BAD_EVENT_SKIP };

struct link_conf {
    const struct provider_conf *provider;
    const char *model; /* at the provider: link's model, else provider's models entry, else the route's model */
    uint32_t ttft_budget_ms, connect_timeout_ms, idle_timeout_ms, total_budget_ms;
    bool is_auto_budget; /* ttft_budget_ms follows the target's latency; it holds the fallback then */
    uint32_t retries;
    int64_t context_window, max_output; /* tokens; 0 = unknown */
    enum adjust adjust;
    struct {
        enum tristate json_schema, tools, vision, prefill, stream_usage, cache_retention;
    } supports;
    const struct set_member *set;
    size_t n_set;
    const struct bytes *drop;
    size_t n_drop;
    const struct price *price; /* the standard one at the time of loading, for what is only weighed; NULL = unknown */
    const struct fare *fare;   /* what attempts are priced by, see link_price; NULL = `price`, at all times */
    const char *service;       /* class of service that `set` asks for; NULL = none */
    bool drops_service;        /* the client's own wish for one does not get there */
    uint16_t index;            /* position in the chain */
    uint16_t equals;           /* neighbours with the same number are equals: see cache.affinity */
    uint16_t target_id;        /* filled by plan_bind */
    /* What is the same for all its attempts; filled by serve when the snapshot is made. */
    struct bytes served_lines; /* of its answers' heads, see front.h */
    struct record_names names; /* of a client that speaks its dialect */
    struct profile profile;    /* without what a call or an attempt decides */
};

/* failover_on, resolved: outcome words and status numbers. */
struct failover_on {
    bool has_default;
    bool outcomes[OUTCOME_N]; /* with default expanded */
    uint16_t statuses[32];
    size_t n_statuses;
};

enum { CLIENT_ORDER = 1, CLIENT_TTFT = 2, CLIENT_DEADLINE = 4, CLIENT_FALLBACK = 8 }; /* client_routing */

struct route_conf {
    const char *model;
    struct link_conf *links;
    size_t n_links;
    uint32_t deadline_ms;
    enum upstream_stream upstream_stream;
    uint32_t max_attempts, wait_retry_after_ms;
    struct failover_on failover_on;
    enum bad_event on_bad_event;
    bool resume;
    struct breaker_conf breaker;
    struct hedge_conf hedge;
    struct cache_conf cache;
    struct auto_conf ttft_auto;
    uint32_t keepalive_sec; /* 0 = off */
    uint32_t keepalive_idle_stop_sec;
    int64_t keepalive_max_nusd_per_day;
    uint32_t heartbeat_ms; /* 0 = off */
    unsigned client_routing;
    uint16_t index;
};

struct limits_conf {
    uint64_t header_bytes, headers, body_bytes, memory /* bytes, resolved from per cent */, connections, json_depth,
        event_bytes, gate_bytes, head_timeout_ms, body_timeout_ms, client_idle_ms, client_stall_ms,
        requests_per_connection, ledger_queue_rows;
};

struct client_key {
    const char *name;
    unsigned char sha256[32];
};

struct config {
    struct arena arena;   /* owns everything below */
    struct config *whole; /* of a core's handle: the snapshot it shows; NULL = this is the snapshot */
    _Atomic int refs;
    int64_t loaded_wall_ms;
    uint64_t version;         /* 1, 2, … per successful load in this process */
    const char *path;         /* of the file; "" = from memory */
    const char *listen;       /* "127.0.0.1:8080" */
    const char *admin_listen; /* "" = off */
    bool has_admin_secret;
    unsigned char admin_secret_sha256[32];
    uint32_t workers;   /* resolved */
    const char *ledger; /* absolute path of the SQLite file; "" = off */
    uint32_t ledger_flush_ms;
    const char *access_log; /* "stdout", "off" or a path */
    uint32_t drain_timeout_ms;
    bool resolver_is_system;
    struct client_key *keys;
    size_t n_keys;
    struct limits_conf limits;
    struct provider_conf *providers;
    size_t n_providers;
    struct route_conf *routes;
    size_t n_routes;
    struct named_fare *prices; /* in the order of the file */
    size_t n_prices;
    const char *price_file;            /* "" = none */
    void (*on_free)(struct config *c); /* set by whoever filled `tls` and `mould`; may be NULL */
};

/* A core's own handle of the snapshot, with one reference: the same members behind a count of its own, so that requests
 * on one core never write a cache line that another core reads. It holds one reference on the snapshot. */
struct config *config_of_core(struct config *whole);
struct config *config_ref(struct config *c);
void config_unref(struct config *c); /* frees at zero, scrubs secrets */

/* The price of an attempt at a link, by the time at which it begins; see fare_at. */
static inline const struct price *link_price(const struct link_conf *l, const char *service, int64_t wall_ms,
                                             bool *is_standin)
{
    if (l->fare != NULL)
        return fare_at(l->fare, service, wall_ms, is_standin);
    *is_standin = false;
    return l->price;
}

const struct route_conf *config_route(const struct config *c, struct bytes model);
const struct provider_conf *config_provider(const struct config *c, struct bytes name);
/* Settings that need a restart and differ between two snapshots, as "listen, workers". Empty = none. */
void config_restart_diff(const struct config *old, const struct config *now, struct buf *out);
/* Those settings of `now` become the old ones, so that a snapshot says what is in force. Before `now` is shared. */
void config_restart_keep(struct config *now, const struct config *old);
/* The reference page (docs/settings.md) and --help text, generated from the settings table. */
void config_settings_doc(struct buf *out);

#endif
