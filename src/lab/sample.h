/* One request as its user felt it, and what the gateway's ledger says of it. Times are microseconds since the load
 * began. Latencies count from `due`: under open-loop load that is when the request should have been sent, so that a
 * stall is felt by everyone who would have come in it and not only by those who were let in. */
#ifndef RM_LAB_SAMPLE_H
#define RM_LAB_SAMPLE_H

#include "model/money.h"

#include <stdbool.h>
#include <stdint.h>

enum { SAMPLE_WORD_BYTES = 24 };
struct sample {
    uint64_t due_us, start_us; /* start: handed to the kernel or to a dial */
    uint64_t first_us;         /* first token; 0 = none came */
    uint64_t end_us;           /* 0 = is still under way, or was never sent */
    uint64_t request_id;       /* the gateway's; 0 = none was told */
    uint32_t round;
    uint16_t status;   /* 0 = no head came */
    uint16_t attempts; /* started ones */
    bool is_ok;
    char error[SAMPLE_WORD_BYTES];    /* one word; "" = none */
    char provider[SAMPLE_WORD_BYTES]; /* who served; "" = nobody */
    int64_t input, output;            /* tokens as told; -1 = not told */
    int64_t cost_nusd, waste_nusd;    /* NUSD_UNKNOWN */
};

/* Nothing has happened yet. */
static inline struct sample sample_none(uint32_t round)
{
    return (struct sample){
        .round = round, .input = -1, .output = -1, .cost_nusd = NUSD_UNKNOWN, .waste_nusd = NUSD_UNKNOWN};
}

#endif
