/* What the commands that read the ledger share. */
#ifndef RM_CMD_LEDGER_H
#define RM_CMD_LEDGER_H

#include "cmd/prices.h"
#include "ledger/counting.h"
#include "ledger/reader.h"

/* "30m", "24h", "7d", a day (UTC), or a time -> milliseconds since 1970. False = none of them. */
bool ledger_since(struct ledger_reader *r, const char *text, int64_t *ms);

/* Subcommands of their own; argv[0] is the word. */
int ledger_reprice(int argc, char **argv);
int ledger_reconcile(int argc, char **argv);

/* What the gateway that writes this ledger has learned of estimates: from the state file beside it. Left empty where
 * there is none, or it is damaged. In the arena. */
void ledger_estimates(const char *ledger_path, struct arena *arena, struct estimates *out);

/* A ledger with the prices to look at it. */
struct ledger_stage {
    struct config *config; /* NULL where --db was given without --config */
    struct prices *prices;
    struct ledger_reader *reader;
    const char *path; /* of the ledger */
};
/* config NULL: db must be given; db NULL: the configuration's. book: see prices_open. Tells on standard error what
 * fails; false then, and nothing is left open. */
bool ledger_stage_open(const char *config, const char *db, const char *book, struct ledger_stage *out) RM_MUST_USE;
void ledger_stage_close(struct ledger_stage *s);

#endif
