#include "lab/fault.h"

#include "base/check.h"

static const char *const words[FAULT_N_KINDS + 1] = {
    [FAULT_NONE] = "ok",
    [FAULT_STATUS] = "status",
    [FAULT_QUOTA] = "quota",
    [FAULT_CONTEXT] = "context",
    [FAULT_POLICY] = "policy",
    [FAULT_REFUSE] = "refuse",
    [FAULT_DEAF] = "deaf",
    [FAULT_RESET] = "reset",
    [FAULT_RESET_AFTER_HEAD] = "reset-after-head",
    [FAULT_HANG] = "hang",
    [FAULT_HANG_AFTER_HEAD] = "hang-after-head",
    [FAULT_HANG_AFTER_ROLE] = "hang-after-role",
    [FAULT_ERROR_IN_200] = "error-in-200",
    [FAULT_ERROR_AFTER_TOKEN] = "error-after-token",
    [FAULT_CUT] = "cut",
    [FAULT_END_EARLY] = "end-early",
    [FAULT_RST_AFTER] = "rst-after",
    [FAULT_STALL] = "stall",
    [FAULT_MALFORMED] = "malformed",
    [FAULT_NO_DONE] = "no-done",
    [FAULT_NO_LAST_CHUNK] = "no-last-chunk",
    [FAULT_HTML] = "html",
    [FAULT_EMPTY] = "empty",
    [FAULT_WRONG_TYPE] = "wrong-type",
    [FAULT_SLOW] = "slow",
    [FAULT_SLOW_AFTER_HEAD] = "slow-after-head",
    [FAULT_COMMENTS] = "comments",
    [FAULT_HUGE] = "huge",
    [FAULT_SPLIT] = "split",
    [FAULT_DRIP] = "drip",
};

enum { AFTER_DEFAULT = 3, SLOW_TTFT_MS = 5000, DRIP_MS = 10, HUGE_BYTES = 1 << 20, SPLIT_BYTES = 1 };
enum { NUMBER_MAX = 1000000000 };

static bool kind_of(struct bytes word, struct fault *out)
{
    uint64_t status;
    if (word.n == 3 && bytes_to_u64(word, &status) && status >= 400 && status <= 599) {
        out->kind = FAULT_STATUS;
        out->status = (unsigned)status;
        return true;
    }
    if (bytes_is(word, "none")) {
        out->kind = FAULT_NONE;
        return true;
    }
    for (int i = 0; i < FAULT_N_KINDS; i++)
        if (i != FAULT_STATUS && bytes_is(word, words[i])) {
            out->kind = (enum fault_kind)i;
            return true;
        }
    return false;
}

static bool is_status(struct bytes text, struct fault *out)
{
    uint64_t n;
    if (text.n != 3 || !bytes_to_u64(text, &n) || n < 200 || n > 599)
        return false;
    out->status = (unsigned)n;
    return true;
}

/* What the first number after the word means. */
static int64_t *first_number(struct fault *f)
{
    switch (f->kind) {
    case FAULT_STATUS:
    case FAULT_QUOTA:
        return &f->retry_after_ms;
    case FAULT_SLOW:
    case FAULT_SLOW_AFTER_HEAD:
        return &f->ttft_ms;
    case FAULT_HANG:
    case FAULT_DRIP:
        return &f->for_ms;
    case FAULT_HUGE:
    case FAULT_SPLIT:
        return &f->bytes;
    case FAULT_ERROR_AFTER_TOKEN:
    case FAULT_CUT:
    case FAULT_END_EARLY:
    case FAULT_RST_AFTER:
    case FAULT_STALL:
    case FAULT_MALFORMED:
        return &f->after;
    default:
        return NULL;
    }
}

static bool read_numbers(struct bytes numbers, struct fault *out)
{
    struct bytes text = bytes_cut(&numbers, ':');
    int64_t *first = first_number(out);
    uint64_t n;
    if (out->kind == FAULT_HTML)
        return numbers.p == NULL && is_status(text, out);
    if (first == NULL || !bytes_to_u64(text, &n) || n > NUMBER_MAX)
        return false;
    bool is_seconds = first == &out->retry_after_ms;
    *first = (int64_t)n * (is_seconds ? 1000 : 1);
    if (numbers.p == NULL)
        return true;
    if (out->kind != FAULT_STALL || !bytes_to_u64(numbers, &n) || n > NUMBER_MAX)
        return false;
    out->for_ms = (int64_t)n;
    return true;
}

static void set_own_numbers(struct fault *f)
{
    if ((f->kind == FAULT_SLOW || f->kind == FAULT_SLOW_AFTER_HEAD) && f->ttft_ms < 0)
        f->ttft_ms = SLOW_TTFT_MS;
    if (f->kind == FAULT_DRIP && f->for_ms < 0)
        f->for_ms = DRIP_MS;
    if (f->kind == FAULT_HUGE && f->bytes < 0)
        f->bytes = HUGE_BYTES;
    if (f->kind == FAULT_SPLIT && f->bytes < 0)
        f->bytes = SPLIT_BYTES;
}

bool fault_parse(struct bytes word, struct fault *out)
{
    *out = (struct fault){.retry_after_ms = -1, .after = -1, .ttft_ms = -1, .for_ms = -1, .bytes = -1, .times = -1};
    struct bytes numbers = bytes_trim(word), name = bytes_cut(&numbers, ':');
    if (!kind_of(name, out) || (numbers.p != NULL && !read_numbers(numbers, out)))
        return false;
    set_own_numbers(out);
    return out->bytes != 0 && out->bytes <= FAULT_BYTES_MAX;
}

bool fault_parse_list(struct bytes list, struct fault *out, size_t *n, struct bytes *bad)
{
    *n = 0;
    while (list.n > 0) {
        struct bytes word = bytes_cut(&list, ',');
        if (*n == FAULT_LIST_MAX || !fault_parse(word, &out[*n])) {
            *bad = word;
            return false;
        }
        out[*n].times = list.n > 0 ? 1 : -1;
        (*n)++;
    }
    return true;
}

const char *fault_word(const struct fault *f)
{
    RM_ASSERT((unsigned)f->kind < FAULT_N_KINDS);
    return words[f->kind];
}

int64_t fault_after(const struct fault *f)
{
    if (f->after >= 0)
        return f->after;
    return f->kind == FAULT_MALFORMED || f->kind == FAULT_HUGE ? 0 : AFTER_DEFAULT;
}

const char *const *fault_names(void)
{
    return words;
}

const char *fault_words(void)
{
    return "ok 400…599[:RETRY_AFTER_S] quota[:RETRY_AFTER_S] context policy refuse deaf reset reset-after-head "
           "hang[:MS] "
           "hang-after-head hang-after-role error-in-200 error-after-token[:WORDS] cut[:WORDS] end-early[:WORDS] "
           "rst-after[:WORDS] stall[:WORDS[:MS]] malformed[:WORDS] no-done no-last-chunk html[:STATUS] empty "
           "wrong-type "
           "slow[:MS] slow-after-head[:MS] comments huge[:BYTES] split[:BYTES] drip[:MS]";
}
