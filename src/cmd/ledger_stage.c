#include "cmd/ledger.h"
#include "cmd/load.h"

#include <stdio.h>

static bool load_config(const char *path, struct config **out)
{
    struct config_faults faults = {0};
    bool ok = config_load_file(path, &faults, out) == ERR_OK;
    if (!ok) {
        struct buf text = {0};
        config_faults_text(&faults, &text);
        fputs(buf_cstr(&text), stderr);
        buf_fini(&text);
    }
    config_faults_fini(&faults);
    return ok;
}

bool ledger_stage_open(const char *config, const char *db, const char *book, struct ledger_stage *out)
{
    char message[400] = "";
    *out = (struct ledger_stage){0};
    if (config != NULL && !load_config(config, &out->config))
        return false;
    out->path = db != NULL ? db : out->config->ledger;
    if (out->path[0] == '\0')
        snprintf(message, sizeof message, "the ledger is off in %s", config);
    else if (prices_open(out->config, book, &out->prices, message, sizeof message) == ERR_OK &&
             ledger_reader_open(out->path, &out->reader, message, sizeof message) == ERR_OK)
        return true;
    fprintf(stderr, "ringmain ledger: %s\n", message);
    ledger_stage_close(out);
    return false;
}

void ledger_stage_close(struct ledger_stage *s)
{
    ledger_reader_close(s->reader);
    prices_close(s->prices);
    config_unref(s->config);
    *s = (struct ledger_stage){0};
}
