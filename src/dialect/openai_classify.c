/* Failover semantics 2, "OpenAI and Azure" and "Compatible hosts". */
#include "dialect/answer_impl.h"
#include "dialect/classify.h"

/* ---- a host's own rows ---- */

struct vendor_row {
    const char *vendor;
    unsigned status;
    const char *text; /* must be said; NULL = any */
    enum failure_class class;
};

/* The first row that fits. */
static const struct vendor_row vendor_rows[] = {
    {"together", 403, "context", FAILURE_CONTEXT},
    {"together", 403, "token", FAILURE_CONTEXT},
    {"together", 529, NULL, FAILURE_FAULT},
    {"fireworks", 412, NULL, FAILURE_QUOTA},
    {"groq", 413, NULL, FAILURE_RATE},
    {"groq", 422, NULL, FAILURE_FAULT},
    {"groq", 424, NULL, FAILURE_FAULT},
    {"groq", 498, NULL, FAILURE_OVERLOAD},
    {"groq", 499, NULL, FAILURE_FAULT},
    {"deepinfra", 422, NULL, FAILURE_COMPAT},
    {"mistral", 422, NULL, FAILURE_COMPAT},
    {"deepseek", 422, NULL, FAILURE_CLIENT},
    {"xai", 422, NULL, FAILURE_COMPAT},
    {"openrouter", 402, "in_flight_budget_exhausted", FAILURE_RATE},
    {"openrouter", 412, NULL, FAILURE_CLIENT},
    {"openrouter", 413, NULL, FAILURE_CLIENT},
    {"openrouter", 422, NULL, FAILURE_CLIENT},
    {"xai", 400, "api key", FAILURE_AUTH},
    {"xai", 403, "used all available credits", FAILURE_QUOTA},
    {"cohere", 429, "month", FAILURE_QUOTA},
    {"cohere", 498, NULL, FAILURE_POLICY},
};

static enum failure_class by_vendor_row(struct bytes vendor, unsigned status, const struct complaint *c)
{
    for (size_t i = 0; i < RM_COUNTOF(vendor_rows); i++) {
        const struct vendor_row *r = &vendor_rows[i];
        if (r->status == status && bytes_is(vendor, r->vendor) && (r->text == NULL || complaint_says(c, r->text)))
            return r->class;
    }
    return FAILURE_NONE;
}

static enum failure_class by_openrouter(unsigned status, const struct complaint *c)
{
    static const struct class_row rows[] = {
        {"in_flight_budget_exhausted", FAILURE_RATE},
        {"context_length_exceeded", FAILURE_CONTEXT},
        {"max_tokens_exceeded", FAILURE_CONTEXT},
        {"token_limit_exceeded", FAILURE_CONTEXT},
        {"string_too_long", FAILURE_CONTEXT},
        {"authentication", FAILURE_AUTH},
        {"permission_denied", FAILURE_POLICY},
        {"payment_required", FAILURE_QUOTA},
        {"rate_limit_exceeded", FAILURE_RATE},
        {"provider_overloaded", FAILURE_OVERLOAD},
        {"provider_unavailable", FAILURE_FAULT},
        {"invalid_request", FAILURE_CLIENT},
        {"invalid_prompt", FAILURE_CLIENT},
        {"unprocessable", FAILURE_CLIENT},
        {"precondition_failed", FAILURE_CLIENT},
        {"payload_too_large", FAILURE_CLIENT},
        {"not_found", FAILURE_NOTFOUND},
        {"content_policy_violation", FAILURE_POLICY},
        {"refusal", FAILURE_POLICY},
        {"server", FAILURE_FAULT},
        {"unmapped", FAILURE_FAULT},
        {"timeout", FAILURE_FAULT},
    };
    yyjson_val *availability = yyjson_obj_get(c->error, "availability");
    struct bytes code = json_tree_str(availability, "code");
    if (bytes_is(code, "capacity_exhausted"))
        return FAILURE_RATE;
    if (bytes_is(code, "temporarily_unavailable"))
        return FAILURE_OVERLOAD;
    yyjson_val *metadata = yyjson_obj_get(c->error, "metadata");
    bool is_moderated = yyjson_obj_get(metadata, "reasons") != NULL || yyjson_obj_get(metadata, "patterns") != NULL ||
                        yyjson_obj_get(metadata, "flagged_input") != NULL;
    if (is_moderated && (status == 403 || status == 0))
        return FAILURE_POLICY;
    return classify_by_rows(rows, RM_COUNTOF(rows), c);
}

/* ---- codes and types that mean the same everywhere ---- */

static const struct class_row code_rows[] = {
    {"context_length_exceeded", FAILURE_CONTEXT},
    {"string_above_max_length", FAILURE_CONTEXT},
    {"exceed_context_size_error", FAILURE_CONTEXT},
    {"too_many_prompt_tokens", FAILURE_CONTEXT},
    {"too_many_tokens", FAILURE_CONTEXT},
    {"responsibleaipolicyviolation", FAILURE_POLICY},
    {"content_filter", FAILURE_POLICY},
    {"content_policy_violation", FAILURE_POLICY},
    {"invalid_prompt", FAILURE_POLICY},
    {"bio_policy", FAILURE_POLICY},
    {"misalignment_policy_violation", FAILURE_POLICY},
    {"image_content_policy_violation", FAILURE_POLICY},
    {"unsupported_parameter", FAILURE_COMPAT},
    {"unsupported_value", FAILURE_COMPAT},
    {"unknown_parameter", FAILURE_COMPAT},
    {"insufficient_quota", FAILURE_QUOTA},
    {"billing_not_active", FAILURE_QUOTA},
    {"account_deactivated", FAILURE_QUOTA},
    {"insufficient_credits", FAILURE_QUOTA},
    {"payment_required", FAILURE_QUOTA},
    {"billing_error", FAILURE_QUOTA},
    {"invalid_api_key", FAILURE_AUTH},
    {"unsupported_country_region_territory", FAILURE_AUTH},
    {"model_not_found", FAILURE_NOTFOUND},
    {"deploymentnotfound", FAILURE_NOTFOUND},
    {"tool_use_failed", FAILURE_FAULT},
    {"queue_exceeded", FAILURE_OVERLOAD},
    {"capacity_exceeded", FAILURE_OVERLOAD},
    {"engine_overloaded", FAILURE_OVERLOAD},
    {"overloaded_error", FAILURE_OVERLOAD},
    {"unavailable_error", FAILURE_OVERLOAD},
    {"rate_limit_exceeded", FAILURE_RATE},
    {"rate_limit_error", FAILURE_RATE},
    {"ratelimitreached", FAILURE_RATE},
    {"slow_down", FAILURE_RATE},
    {"tokens", FAILURE_RATE},
    {"requests", FAILURE_RATE},
    /* Faults of the client's own request: the text is not searched for anything else. */
    {"invalid_value", FAILURE_CLIENT},
    {"missing_required_parameter", FAILURE_CLIENT},
    {"invalid_function_parameters", FAILURE_CLIENT},
    {"invalid_type", FAILURE_CLIENT},
    {"invalid_image_url", FAILURE_CLIENT},
    {"invalid_image_format", FAILURE_CLIENT},
};

/* Types that say less than the status: they count where none is known. */
static const struct class_row type_rows[] = {
    {"server_error", FAILURE_FAULT},        {"internal_server_error", FAILURE_FAULT},
    {"internalservererror", FAILURE_FAULT}, {"api_error", FAILURE_FAULT},
    {"timeout_error", FAILURE_FAULT},       {"authentication_error", FAILURE_AUTH},
    {"permission_error", FAILURE_AUTH},     {"not_found_error", FAILURE_NOTFOUND},
    {"badrequesterror", FAILURE_CLIENT},    {"invalid_request_error", FAILURE_CLIENT},
};

static bool is_client_status(unsigned status)
{
    return status == 0 || (status >= 400 && status < 500);
}

/* A 5xx is a fault or an overload whatever its words, unless they name the account or its rate. */
static enum failure_class by_code(unsigned status, const struct complaint *c)
{
    enum failure_class class = classify_by_rows(code_rows, RM_COUNTOF(code_rows), c);
    bool is_ours = class == FAILURE_QUOTA || class == FAILURE_RATE || class == FAILURE_OVERLOAD;
    return is_client_status(status) || is_ours ? class : FAILURE_NONE;
}

/* A host that gives no code: the refusal of a parameter that we know how to cure. */
static bool is_curable(unsigned status, const struct complaint *c)
{
    return (status == 400 || status == 422) && classify_is_refused_parameter(c) && classify_quirk(c) != 0;
}

enum failure_class openai_class_of(struct bytes vendor, unsigned status, const struct fields *fields,
                                   const struct complaint *c)
{
    enum failure_class class = by_vendor_row(vendor, status, c);
    if (class == FAILURE_NONE && bytes_is(vendor, "openrouter"))
        class = by_openrouter(status, c);
    if (class == FAILURE_NONE)
        class = by_code(status, c);
    if (class == FAILURE_NONE)
        class = classify_by_text(status, c);
    if (class == FAILURE_NONE && is_curable(status, c))
        class = FAILURE_COMPAT;
    if (class == FAILURE_NONE && status == 0)
        class = classify_by_rows(type_rows, RM_COUNTOF(type_rows), c);
    return class != FAILURE_NONE ? class : classify_by_status(status, fields, c);
}

void openai_classify(struct bytes vendor, unsigned status, const struct fields *fields, struct bytes body,
                     int64_t wall_ms, struct failure *out)
{
    classify_http(openai_class_of, vendor, status, fields, body, wall_ms, out);
}
