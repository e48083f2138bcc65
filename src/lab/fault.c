#include "lab/fault.h"

#include "base/check.h"

static const char *const words[FAULT_N_KINDS] = {
    [FAULT_NONE] = "ok",
    [FAULT_STATUS] = "status",
    [FAULT_QUOTA] = "quota",
    [FAULT_CONTEXT] = "context",
    [FAULT_REFUSE] = "refuse",
    [FAULT_RESET] = "reset",
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
    [FAULT_HTML] = "html",
    [FAULT_EMPTY] = "empty",
    [FAULT_SLOW] = "slow",
};

enum { AFTER_DEFAULT = 3, SLOW_TTFT_MS = 5000 };

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

bool fault_parse(struct bytes word, struct fault *out)
{
    *out = (struct fault){.retry_after_ms = -1, .after = -1, .ttft_ms = -1, .times = -1};
    struct bytes number = bytes_trim(word), name = bytes_cut(&number, ':');
    uint64_t n;
    if (!kind_of(name, out))
        return false;
    if (out->kind == FAULT_SLOW)
        out->ttft_ms = SLOW_TTFT_MS;
    if (number.p == NULL)
        return true;
    if (!bytes_to_u64(number, &n) || n > 1000000)
        return false;
    if (out->kind == FAULT_STATUS)
        out->retry_after_ms = (int64_t)n * 1000;
    else if (out->kind == FAULT_SLOW)
        out->ttft_ms = (int64_t)n;
    else
        out->after = (int64_t)n;
    return true;
}

bool fault_parse_list(struct bytes list, struct fault *out, size_t *n, struct bytes *bad)
{
    *n = 0;
    while (list.n > 0) {
        struct bytes word = bytes_cut(&list, ',');
        if (*n == FAULTS_MAX || !fault_parse(word, &out[*n])) {
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
    return f->kind == FAULT_MALFORMED ? 0 : AFTER_DEFAULT;
}

const char *fault_words(void)
{
    return "ok 400…599 (429:SECONDS adds retry-after) quota context refuse reset hang hang-after-head hang-after-role "
           "error-in-200 error-after-token cut end-early rst-after stall malformed no-done html empty slow";
}
