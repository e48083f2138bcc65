#include "front/traceparent.h"

enum { VERSION_AT = 0, TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, END_AT = 55 };

static bool is_hex(struct bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        if (!((b.p[i] >= '0' && b.p[i] <= '9') || (b.p[i] >= 'a' && b.p[i] <= 'f')))
            return false;
    return true;
}

static bool is_zero(struct bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] != '0')
            return false;
    return true;
}

bool traceparent_parse(struct bytes value, struct bytes *trace_id)
{
    if (value.n < END_AT)
        return false;
    struct bytes version = bytes_slice(value, VERSION_AT, TRACE_AT - 1);
    struct bytes trace = bytes_slice(value, TRACE_AT, PARENT_AT - 1);
    struct bytes parent = bytes_slice(value, PARENT_AT, FLAGS_AT - 1);
    struct bytes flags = bytes_slice(value, FLAGS_AT, END_AT);
    bool dashes = value.p[TRACE_AT - 1] == '-' && value.p[PARENT_AT - 1] == '-' && value.p[FLAGS_AT - 1] == '-';
    if (!dashes || !is_hex(version) || !is_hex(trace) || !is_hex(parent) || !is_hex(flags))
        return false;
    if (bytes_is(version, "ff") || is_zero(trace) || is_zero(parent))
        return false;
    if (value.n > END_AT && (bytes_is(version, "00") || value.p[END_AT] != '-'))
        return false;
    *trace_id = trace;
    return true;
}
