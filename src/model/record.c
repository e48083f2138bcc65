#include "model/record.h"

#include "base/check.h"

const char *attempt_kind_word(enum attempt_kind k)
{
    static const char *const words[] = {"client", "keepalive", "hedge"};
    RM_ASSERT((unsigned)k < RM_COUNTOF(words));
    return words[k];
}

const char *tokens_from_word(enum tokens_from t)
{
    static const char *const words[] = {"unbilled", "estimated", "reported"};
    RM_ASSERT((unsigned)t < RM_COUNTOF(words));
    return words[t];
}

const char *price_certainty_word(bool is_standin)
{
    return is_standin ? "standard_rates" : "exact";
}
