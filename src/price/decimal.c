/* Digits are gathered as a whole number with an exponent; more than 18 significant ones are beyond what a price can
 * mean and only raise the exponent. */
#include "price/decimal.h"

enum { DIGITS_MAX = 18, EXPONENT_MAX = 400 };

struct decimal {
    bool is_negative;
    int64_t digits;
    int exponent; /* of ten */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool read_exponent(struct bytes t, int *out)
{
    int64_t v;
    if (t.n > 0 && t.p[0] == '+')
        t = bytes_slice(t, 1, t.n);
    if (!bytes_to_i64(t, &v) || v > EXPONENT_MAX || v < -EXPONENT_MAX)
        return false;
    *out += (int)v;
    return true;
}

static bool read(struct bytes t, struct decimal *d)
{
    size_t i = 0, n_digits = 0;
    int kept = 0;
    bool in_fraction = false;
    *d = (struct decimal){0};
    if (t.n > 0 && (t.p[0] == '-' || t.p[0] == '+'))
        d->is_negative = t.p[i++] == '-';
    for (; i < t.n && (is_digit(t.p[i]) || (t.p[i] == '.' && !in_fraction)); i++) {
        if (t.p[i] == '.') {
            in_fraction = true;
            continue;
        }
        n_digits++;
        if (kept < DIGITS_MAX) {
            d->digits = d->digits * 10 + (t.p[i] - '0');
            kept += d->digits != 0;
            d->exponent -= in_fraction;
        } else {
            d->exponent += !in_fraction;
        }
        if (d->exponent > EXPONENT_MAX || d->exponent < -EXPONENT_MAX)
            return false;
    }
    if (n_digits == 0)
        return false;
    if (i < t.n && (t.p[i] == 'e' || t.p[i] == 'E'))
        return read_exponent(bytes_slice(t, i + 1, t.n), &d->exponent);
    return i == t.n;
}

/* Divides by 10^n, half-up; *lost: as in the header. */
static int64_t shrink(int64_t v, int n, bool *lost)
{
    int64_t by = 1;
    for (int i = 0; i < n && by <= INT64_MAX / 10; i++)
        by *= 10;
    if (n > DIGITS_MAX) { /* nothing of it is left */
        *lost = v != 0;
        return 0;
    }
    int64_t q = v / by, rest = v % by;
    int64_t miss = rest < by - rest ? rest : by - rest;
    *lost = miss > v / 1000000;
    return rest >= by - rest ? q + 1 : q;
}

const char *decimal_units(struct bytes text, int places, int64_t max, int64_t *out, bool *is_rounded)
{
    struct decimal d;
    *is_rounded = false;
    if (!read(bytes_trim(text), &d))
        return "is not a number";
    if (d.is_negative && d.digits != 0)
        return "is negative";
    d.exponent += places;
    int64_t v = d.digits;
    for (; d.exponent > 0 && v != 0; d.exponent--) {
        if (v > INT64_MAX / 10)
            return "is too large";
        v *= 10;
    }
    if (d.exponent < 0)
        v = shrink(v, -d.exponent, is_rounded);
    if (v > max)
        return "is too large";
    *out = v;
    return NULL;
}
