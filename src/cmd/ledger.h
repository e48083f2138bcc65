/* What the commands that read the ledger share. */
#ifndef RM_CMD_LEDGER_H
#define RM_CMD_LEDGER_H

#include "ledger/reader.h"

/* "30m", "24h", "7d", or a time -> milliseconds since 1970. False = none of them. */
bool ledger_since(struct ledger_reader *r, const char *text, int64_t *ms);

#endif
