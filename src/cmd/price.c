/* ringmain price: what calls, and what resilience, cost. */
#include "cmd/price.h"

#include "cmd/cmd.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static void usage(FILE *to)
{
    fputs("usage: ringmain price --article [--json]\n\n"
          "  --article     the published comparison of July 2026, recomputed beside its figures\n"
          "  --json        the same as one JSON object; money is whole nano-dollars\n"
          "  -h, --help    this text\n",
          to);
}

static const struct option options[] = {{"article", no_argument, NULL, 'a'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

int cmd_price(int argc, char **argv)
{
    bool is_article = false, is_json = false;
    int o;
    while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (o) {
        case 'h':
            usage(stdout);
            return 0;
        case 'a':
            is_article = true;
            break;
        case 'j':
            is_json = true;
            break;
        default:
            usage(stderr);
            return 2;
        }
    }
    if (!is_article || optind != argc) {
        usage(stderr);
        return 2;
    }
    return price_article(is_json);
}
