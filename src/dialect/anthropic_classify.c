/* Failover semantics 2, "Anthropic"; anthropic-messages.md 6. */
#include "dialect/answer_impl.h"
#include "dialect/classify.h"
#include "dialect/hint.h"

/* error.details.error_code, mostly. */
static enum failure_class by_code(const struct complaint *c)
{
    static const struct class_row rows[] = {
        {"enforced_spend_limit_reached", FAILURE_QUOTA},
        {"contract_spend_limit_reached", FAILURE_QUOTA},
        {"linked_organization_billing_unavailable", FAILURE_QUOTA},
        {"linked_organization_spend_limit_reached", FAILURE_QUOTA},
        {"billing_error", FAILURE_QUOTA},
        {"organization_on_hold", FAILURE_AUTH},
        {"cmek_key_disabled", FAILURE_QUOTA},
        {"cmek_key_unreachable", FAILURE_QUOTA},
        {"thread_not_found", FAILURE_CLIENT},
        {"ramp_limit_exceeded", FAILURE_RATE},
        {"request_too_large", FAILURE_CONTEXT},
        {"overloaded_error", FAILURE_OVERLOAD},
        {"authentication_error", FAILURE_AUTH},
        {"permission_error", FAILURE_AUTH},
    };
    enum failure_class class = classify_by_rows(rows, RM_COUNTOF(rows), c);
    bool is_key = bytes_starts_with(c->detail, BYTES("cmek_key_"));
    return class == FAILURE_NONE && is_key ? FAILURE_QUOTA : class;
}

/* A rate limit tells when to come back, in one form or another; money does not. Only the vendor itself promises that.
 */
static bool is_spend_cap(struct bytes vendor, const struct fields *fields, const struct complaint *c)
{
    return bytes_is(vendor, "anthropic") && fields != NULL && !hint_is_in_fields(fields) &&
           !hint_is_exhausted(fields) && hint_read(fields, c, 0, false) < 0;
}

static bool is_incompatible(const struct complaint *c)
{
    if (complaint_says(c, "signature") && (complaint_says(c, "invalid") || complaint_says(c, "thinking")))
        return true;
    if (complaint_says(c, "thinking") && complaint_says(c, "must start with"))
        return true;
    if (complaint_says(c, "prefill"))
        return true;
    return classify_is_refused_parameter(c) &&
           (classify_quirk(c) != 0 || complaint_says(c, "effort") || complaint_says(c, "does not support"));
}

static enum failure_class by_type(const struct complaint *c)
{
    static const struct class_row rows[] = {
        {"rate_limit_error", FAILURE_RATE},        {"api_error", FAILURE_FAULT},
        {"timeout_error", FAILURE_FAULT},          {"not_found_error", FAILURE_NOTFOUND},
        {"invalid_request_error", FAILURE_CLIENT}, {"conflict_error", FAILURE_FAULT},
    };
    return classify_by_rows(rows, RM_COUNTOF(rows), c);
}

enum failure_class anthropic_class_of(struct bytes vendor, unsigned status, const struct fields *fields,
                                      const struct complaint *c)
{
    enum failure_class class = by_code(c);
    if (class == FAILURE_NONE)
        class = classify_by_text(status, c);
    if (class == FAILURE_NONE && status == 429)
        class = is_spend_cap(vendor, fields, c) ? FAILURE_QUOTA : FAILURE_RATE;
    if (class == FAILURE_NONE && (status == 400 || status == 422) && is_incompatible(c))
        class = FAILURE_COMPAT;
    if (class == FAILURE_NONE && status == 422 && complaint_is(c, "invalid_request_error"))
        class = FAILURE_CLIENT;
    if (class == FAILURE_NONE && status == 0)
        class = by_type(c);
    return class != FAILURE_NONE ? class : classify_by_status(status, fields, c);
}

void anthropic_classify(struct bytes vendor, unsigned status, const struct fields *fields, struct bytes body,
                        int64_t wall_ms, struct failure *out)
{
    classify_http(anthropic_class_of, vendor, status, fields, body, wall_ms, out);
}
