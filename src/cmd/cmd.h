/* The subcommands: each gets its own name as argv[0] and gives the exit code: 0 success, 1 failed, 2 usage. */
#ifndef RM_CMD_CMD_H
#define RM_CMD_CMD_H

int cmd_serve(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_mock(int argc, char **argv);
int cmd_ledger(int argc, char **argv);
int cmd_price(int argc, char **argv);
int cmd_keys(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_bench(int argc, char **argv);
/* One of the benches: argv[0] is "faults". */
int cmd_bench_faults(int argc, char **argv);

#endif
