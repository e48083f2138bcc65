/* struct profile: what must be known of a target to write a request for it. Filled from a link of the config. */
#ifndef RM_MODEL_PROFILE_H
#define RM_MODEL_PROFILE_H

#include "base/bytes.h"

enum tristate { UNSET, NO, YES };

struct set_member {
    struct bytes name; /* top-level member of the provider's body */
    struct bytes json; /* its value, as JSON text */
};

struct profile {
    struct bytes model;      /* name at the provider */
    struct bytes model_json; /* the same as JSON text; p NULL = not written yet */
    struct bytes vendor;     /* "openai", "anthropic", "together", … , "generic" */
    bool is_stream;          /* ask for a stream */
    bool adds_usage;         /* add stream_options.include_usage where the client did not ask (Chat target) */
    uint8_t quirks;          /* enum quirk bits learned of this target */
    int64_t max_output;      /* most output tokens; 0 = unknown */
    bool is_keepalive;       /* a tiny completion of our own */
    int64_t cache_ttl_s;     /* from x-cache; 0 = none */
    bool withholds_cache;    /* Messages: no cache is to be written: markers, the client's too, are left out */
    bool takes_retention;    /* Chat: the model is declared to take prompt_cache_retention and prompt_cache_key */
    struct bytes cache_key;  /* Chat, with cache_ttl_s: a prompt_cache_key where the client gave none; n 0 = none */
    const struct set_member *set; /* link's `set` */
    size_t n_set;
    const struct bytes *drop; /* link's `drop`: top-level members */
    size_t n_drop;
};

#endif
