/* The parts of `ringmain price`. Each prints to standard output, says on standard error what is wrong, and gives the
 * exit code: 0 success, 1 failed, 2 usage. */
#ifndef RM_CMD_PRICE_H
#define RM_CMD_PRICE_H

#include <stdbool.h>

/* The published comparison, recomputed. Fails when one of its figures does not come out. */
int price_article(bool is_json);
/* `ringmain price import`; argv[0] is "import". */
int price_import(int argc, char **argv);
/* `ringmain price budget`; argv[0] is "budget". */
int price_budget(int argc, char **argv);
/* `ringmain price what-if`; argv[0] is "what-if". */
int price_whatif(int argc, char **argv);
/* What resilience costs on a route of the configuration. */
struct chain_options;
int price_chain(const struct chain_options *o);

#endif
