/* From a file's text to a snapshot, and the faults that are told on the way. Part of config.h, which includes it. */
#ifndef RM_CONFIG_PARSE_H
#define RM_CONFIG_PARSE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/money.h"
#include "price/fare.h"

struct config;

/* Prices of the file's own, by "provider/model" or "model". */
struct named_fare {
    const char *name;
    struct fare fare;
};

struct config_fault {
    bool is_warning;
    const char *file;
    unsigned line, column; /* from 1; 0 = none */
    const char *message;   /* what was found, what was expected, the nearest known name */
};
struct config_faults {
    struct arena arena;
    struct config_fault *v;
    size_t n, n_errors;
};

/* Where a price comes from: fare.h. */
enum { PRICE_LAYER_CONFIG, PRICE_LAYER_FILE, PRICE_LAYER_BUILTIN };

/* Names that live in rooms which config may not see. NULL-terminated. */
struct config_known {
    const char *const *dialects;
    const char *const *vendors;
    uint32_t cores;
    uint64_t memory_bytes;                              /* of the machine, for per cent */
    const char *(*getenv)(const char *name, void *arg); /* the environment is handed in */
    void *arg;
    void (*fare)(const char *provider, const char *vendor, const char *model, struct arena *a, struct fare *out,
                 void *arg);                             /* adds what the price book knows, as PRICE_LAYER_BUILTIN */
    int64_t wall_ms;                                     /* the time of loading, ms since 1970 */
    struct bytes (*vendor_from_host)(struct bytes host); /* for the price book; NULL = vendors are as configured */
    bool (*is_world_readable)(const char *path);         /* of an api_key_file; NULL = not asked */
};

/* Reads and checks `text` (contents of `path`). On ERR_OK *out is a snapshot with one reference; faults may still hold
 * warnings. On any error *out is NULL and faults has at least one error. Reads api_key_file and ca_file paths relative
 * to the config's folder (through `read_file`, so that the room itself does no I/O). The caller releases faults by
 * config_faults_fini. */
enum err config_parse(struct bytes text, const char *path, const struct config_known *known,
                      enum err (*read_file)(const char *path, struct arena *a, struct bytes *out), struct config **out,
                      struct config_faults *faults) RM_MUST_USE;
void config_faults_fini(struct config_faults *f);
/* "file:line:column: error: message\n" per fault. */
void config_faults_text(const struct config_faults *f, struct buf *out);

#endif
