/* What outlives a stop: the registry's health, the latency history, the bytes a token and the prompts that providers
 * hold in their caches, as one text file beside the ledger.
 *
 *     ringmain-state 1 WALL_MS          when it was written
 *     target …, credential …            registry_write
 *     latency …                         latency_write
 *     ratio …                           ratio_write
 *     prefix …, warm …                  prefixes_write, of each core in turn; only of one that has stopped
 *     end HASH                          of all that stands before, sixteen hexadecimal digits
 *
 * A file that is cut short, changed or of another version is told, set aside under its name with .damaged behind it,
 * and nothing of it is used: everything in it can be learned anew. */
#ifndef RM_SERVE_KEEP_H
#define RM_SERVE_KEEP_H

#include "plan/cache.h"
#include "plan/latency.h"
#include "plan/ratio.h"

struct kept {
    struct registry *registry;
    struct latency *latency;
    struct ratio_book *ratios;
    struct cache_memory *const *caches; /* of the cores, while none of them runs; each gets all of it back */
    size_t n_caches;                    /* 0 = they run, or there are none: prefixes are left out */
    uint64_t now_us;
    int64_t wall_ms;
};

/* The file's text. */
void keep_text(const struct kept *k, struct buf *out);
/* The lines of such a text, without its first and its last, and when it was written. False: damaged. */
bool keep_lines(struct bytes text, struct bytes *lines, int64_t *wall_ms);
/* Takes a text over. ERR_SYNTAX: damaged, nothing was taken; ERR_LIMIT: more than fits, the rest was taken. Before the
 * workers run. */
enum err keep_take(const struct kept *k, struct bytes text) RM_MUST_USE;

/* Reads the file of this ledger, if there is one. Faults are logged. */
void keep_load(const struct kept *k, const char *ledger_path);
/* Writes it beside itself and renames it, so that a crash leaves the old one. False = failed, and logged. */
bool keep_save(const struct kept *k, const char *ledger_path);

#endif
