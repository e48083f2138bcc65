#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
};

static const struct command commands[] = {
    {"serve", cmd_serve, "run the gateway"},
    {"check", cmd_check, "report every fault of a configuration at once"},
    {"ledger", cmd_ledger, "read what was served, by whom, how fast and at what price"},
    {"price", cmd_price, "what calls and resilience cost, and the price book"},
    {"keys", cmd_keys, "make client keys"},
    {"mock", cmd_mock, "pretend providers that fail on purpose"},
    {"bench", cmd_bench, "what a failover feels like, measured; the scenarios of Failover Bench"},
    {"demo", cmd_demo, "pretend providers, the gateway, four failures and their trails"},
};

static void usage(FILE *to)
{
    fputs("usage: ringmain COMMAND [options]\n\n"
          "A gateway between applications and language-model providers. It switches provider inside the request when "
          "one\n"
          "degrades, and shows what every attempt cost.\n\n",
          to);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].text);
    fputs("\nringmain COMMAND --help tells more. ringmain --version tells the version.\n", to);
}

/* What could not be written was not told: a report that fell on a full disk is a failure. */
static int finish(int code)
{
    if (code != 0 || (fflush(stdout) == 0 && !ferror(stdout)))
        return code;
    fputs("ringmain: standard output could not be written\n", stderr);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("ringmain " RINGMAIN_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return finish(commands[i].run(argc - 1, argv + 1));
    fprintf(stderr, "ringmain: no command '%s'; ringmain --help lists them\n", argv[1]);
    return 2;
}
