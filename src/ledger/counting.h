/* Where the tokens of attempts come from, and what each part costs: reported, estimated and unbilled ones are added up
 * apart. Attempts that were started; keepalives included. */
#ifndef RM_LEDGER_COUNTING_H
#define RM_LEDGER_COUNTING_H

#include "codec/json_write.h"
#include "ledger/reader.h"

struct counting_part {
    int64_t n, n_unpriced;
    int64_t cost_nusd, waste_nusd; /* of those with a price */
};
struct counting {
    struct counting_part parts[TOKENS_REPORTED + 1]; /* by enum tokens_from */
};

/* since_id: the smallest request id that counts. */
enum err counting_read(struct ledger_reader *r, uint64_t since_id, struct counting *out) RM_MUST_USE;
/* "tokens     40 reported $…, 2 estimated $…, 3 unbilled", without a line end. */
void counting_text(const struct counting *c, struct buf *out);
/* The value of a member: an object by word. */
void counting_json(const struct counting *c, struct json_writer *w);

/* How tokens are estimated for a target, as the gateway last wrote it down (it is not on the ledger: the caller knows).
 */
struct estimate {
    const char *provider, *model, *side; /* "prompt", "output" */
    int64_t n_samples;
    bool is_known;          /* false: four bytes are taken for a token */
    int64_t milli_bytes;    /* a token, in thousandths of a byte */
    int64_t error_permille; /* mean absolute error against reports; -1 = not known */
};
struct estimates {
    int64_t as_of_ms; /* 0 = nothing is known */
    const struct estimate *v;
    size_t n;
};
/* "estimates  p/m prompt: 3.120 bytes a token, off by 4.1 % (200 calls)", a line each, each behind a line end. */
void estimates_text(const struct estimates *e, struct buf *out);
/* The value of a member: null where nothing is known. */
void estimates_json(const struct estimates *e, struct json_writer *w);

#endif
