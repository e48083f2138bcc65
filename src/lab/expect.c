#include "lab/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static size_t find_operator(struct bytes in)
{
    size_t less = bytes_find_byte(in, '<'), more = bytes_find_byte(in, '>');
    return less < more ? less : more;
}

/* Digits, a point, a minus: no hexadecimal, no exponent, no "nan". */
static bool parse_number(struct bytes in, double *out)
{
    char text[40];
    if (in.n == 0 || in.n >= sizeof text)
        return false;
    for (size_t i = 0; i < in.n; i++)
        if (!((in.p[i] >= '0' && in.p[i] <= '9') || in.p[i] == '.' || (in.p[i] == '-' && i == 0)))
            return false;
    snprintf(text, sizeof text, "%.*s", (int)in.n, in.p);
    char *end;
    *out = strtod(text, &end);
    return *end == '\0' && end != text && isfinite(*out);
}

bool expect_parse(const char *expression, struct expect *out, const char **why)
{
    struct bytes in = bytes_of(expression);
    size_t at = find_operator(in);
    if (at == SIZE_MAX) {
        *why = "one of < <= > >= must stand between a figure's name and a number";
        return false;
    }
    bool has_equal = at + 1 < in.n && in.p[at + 1] == '=';
    *out = (struct expect){.expression = expression, .name = bytes_trim(bytes_slice(in, 0, at))};
    out->op = in.p[at] == '<' ? (has_equal ? EXPECT_AT_MOST : EXPECT_LESS) : has_equal ? EXPECT_AT_LEAST : EXPECT_MORE;
    if (out->name.n == 0) {
        *why = "a figure's name must stand before the operator";
        return false;
    }
    if (!parse_number(bytes_trim(bytes_slice(in, at + 1 + has_equal, in.n)), &out->number)) {
        *why = "a decimal number must stand after the operator";
        return false;
    }
    return true;
}

bool expect_holds(const struct expect *e, double value)
{
    if (isnan(value))
        return false;
    switch (e->op) {
    case EXPECT_LESS:
        return value < e->number;
    case EXPECT_AT_MOST:
        return value <= e->number;
    case EXPECT_MORE:
        return value > e->number;
    case EXPECT_AT_LEAST:
        return value >= e->number;
    }
    RM_UNREACHABLE();
}
