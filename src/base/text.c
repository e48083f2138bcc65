#include "base/text.h"

#include <stdio.h>

static const char crockford[] = "0123456789abcdefghjkmnpqrstvwxyz";

void text_hex(const unsigned char *in, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[in[i] >> 4];
        out[2 * i + 1] = digits[in[i] & 15];
    }
    out[2 * n] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool text_unhex(struct bytes in, unsigned char *out, size_t n)
{
    if (in.n != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int hi = hex_digit(in.p[2 * i]), lo = hex_digit(in.p[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        out[i] = (unsigned char)(hi << 4 | lo);
    }
    return true;
}

void text_id(uint64_t id, char out[TEXT_ID_BYTES])
{
    memcpy(out, "req_", 4);
    for (int i = 12; i >= 0; i--) {
        out[4 + i] = crockford[id & 31];
        id >>= 5;
    }
    out[17] = '\0';
}

bool text_id_parse(struct bytes in, uint64_t *id)
{
    if (bytes_starts_with(in, BYTES("req_")))
        in = bytes_slice(in, 4, in.n);
    if (in.n != 13)
        return false;
    uint64_t v = 0;
    for (size_t i = 0; i < in.n; i++) {
        const char *at = in.p[i] ? strchr(crockford, in.p[i]) : NULL;
        if (at == NULL || (i == 0 && at - crockford > 15))
            return false;
        v = v << 5 | (uint64_t)(at - crockford);
    }
    *id = v;
    return true;
}

/* Days from 1970-01-01 of a proleptic Gregorian date, and back (H. Hinnant's era arithmetic). */
static int64_t days_of(int64_t y, unsigned m, unsigned d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    unsigned yoe = (unsigned)(y - era * 400);
    unsigned doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
    unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + (int64_t)doe - 719468;
}

static void date_of(int64_t days, int *y, unsigned *m, unsigned *d)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    unsigned doe = (unsigned)(days - era * 146097);
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    unsigned mp = (5 * doy + 2) / 153;
    *d = doy - (153 * mp + 2) / 5 + 1;
    *m = mp < 10 ? mp + 3 : mp - 9;
    *y = (int)(yoe + era * 400) + (*m <= 2);
}

static void two_digits(char *out, unsigned v)
{
    out[0] = (char)('0' + v / 10 % 10);
    out[1] = (char)('0' + v % 10);
}

void text_time(int64_t wall_ms, char out[TEXT_TIME_BYTES])
{
    int64_t days = wall_ms / 86400000, rest = wall_ms % 86400000;
    if (rest < 0) {
        rest += 86400000;
        days--;
    }
    int y;
    unsigned m, d, ms = (unsigned)rest, s = ms / 1000;
    date_of(days, &y, &m, &d);
    memcpy(out, "0000-00-00T00:00:00.000Z", TEXT_TIME_BYTES);
    two_digits(out, (unsigned)y / 100);
    two_digits(out + 2, (unsigned)y);
    two_digits(out + 5, m);
    two_digits(out + 8, d);
    two_digits(out + 11, s / 3600);
    two_digits(out + 14, s / 60 % 60);
    two_digits(out + 17, s % 60);
    two_digits(out + 21, ms % 100);
    out[20] = (char)('0' + ms / 100 % 10);
}

static bool digits(struct bytes in, size_t at, size_t n, unsigned *out)
{
    uint64_t v;
    if (at + n > in.n || !bytes_to_u64(bytes_slice(in, at, at + n), &v))
        return false;
    *out = (unsigned)v;
    return true;
}

static unsigned month_of(struct bytes name)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (unsigned i = 0; i < 12; i++)
        if (name.n == 3 && memcmp(name.p, names + 3 * i, 3) == 0)
            return i + 1;
    return 0;
}

/* A day that its month does not have would be one of the next. */
static bool compose(unsigned y, unsigned mo, unsigned d, unsigned h, unsigned mi, unsigned s, int64_t *wall_ms)
{
    int year;
    unsigned month, day;
    if (mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 || mi > 59 || s > 60)
        return false;
    date_of(days_of(y, mo, d), &year, &month, &day);
    if (month != mo)
        return false;
    *wall_ms = ((days_of(y, mo, d) * 24 + h) * 60 + mi) * 60000 + (int64_t)s * 1000;
    return true;
}

static bool clock_at(struct bytes in, size_t at, unsigned *h, unsigned *mi, unsigned *s)
{
    return digits(in, at, 2, h) && at + 8 <= in.n && in.p[at + 2] == ':' && digits(in, at + 3, 2, mi) &&
           in.p[at + 5] == ':' && digits(in, at + 6, 2, s);
}

static bool rfc3339(struct bytes in, int64_t *wall_ms)
{
    unsigned y, mo, d, h, mi, s, oh, om;
    if (in.n < 20 || !digits(in, 0, 4, &y) || in.p[4] != '-' || !digits(in, 5, 2, &mo) || !digits(in, 8, 2, &d) ||
        (in.p[10] != 'T' && in.p[10] != 't' && in.p[10] != ' ') || !clock_at(in, 11, &h, &mi, &s))
        return false;
    size_t at = 19;
    unsigned ms = 0, scale = 100;
    if (in.p[at] == '.')
        for (at++; at < in.n && in.p[at] >= '0' && in.p[at] <= '9'; at++, scale /= 10)
            ms += (unsigned)(in.p[at] - '0') * scale;
    if (!compose(y, mo, d, h, mi, s, wall_ms))
        return false;
    *wall_ms += ms;
    if (at + 1 == in.n && (in.p[at] == 'Z' || in.p[at] == 'z'))
        return true;
    if (at + 6 != in.n || (in.p[at] != '+' && in.p[at] != '-') || !digits(in, at + 1, 2, &oh) ||
        !digits(in, at + 4, 2, &om))
        return false;
    int64_t offset = ((int64_t)oh * 60 + om) * 60000;
    *wall_ms += in.p[at] == '+' ? -offset : offset;
    return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994" */
static bool http_date(struct bytes in, int64_t *wall_ms)
{
    unsigned y, mo, d, h, mi, s;
    size_t comma = bytes_find_byte(in, ',');
    if (comma == SIZE_MAX) {
        if (in.n != 24 || (mo = month_of(bytes_slice(in, 4, 7))) == 0 ||
            !(digits(in, 8, 2, &d) || digits(in, 9, 1, &d)) || !clock_at(in, 11, &h, &mi, &s) || !digits(in, 20, 4, &y))
            return false;
        return compose(y, mo, d, h, mi, s, wall_ms);
    }
    in = bytes_trim(bytes_slice(in, comma + 1, in.n));
    if (!digits(in, 0, 2, &d) || in.n < 20 || (mo = month_of(bytes_slice(in, 3, 6))) == 0)
        return false;
    bool is_old = in.p[2] == '-';
    if (!digits(in, 7, is_old ? 2 : 4, &y) || !clock_at(in, is_old ? 10 : 12, &h, &mi, &s))
        return false;
    if (is_old)
        y += y < 70 ? 2000 : 1900;
    return compose(y, mo, d, h, mi, s, wall_ms);
}

bool text_time_parse(struct bytes in, int64_t *wall_ms)
{
    in = bytes_trim(in);
    return rfc3339(in, wall_ms) || http_date(in, wall_ms);
}

char *text_usd_at(char *at, int64_t nusd)
{
    enum { DECIMALS = 9 };
    uint64_t v = nusd < 0 ? 0 - (uint64_t)nusd : (uint64_t)nusd;
    uint64_t rest = v % 1000000000;
    char room[BYTES_DIGITS_MAX];
    struct bytes whole = bytes_digits(v / 1000000000, room);
    if (nusd < 0)
        *at++ = '-';
    memcpy(at, whole.p, whole.n);
    at += whole.n;
    memcpy(at, ".000000000", 1 + DECIMALS);
    for (int i = DECIMALS; rest > 0; i--, rest /= 10)
        at[i] = (char)('0' + rest % 10);
    return at + 1 + DECIMALS;
}

void text_usd(struct buf *out, int64_t nusd)
{
    char text[TEXT_USD_BYTES];
    buf_put(out, bytes_from(text, (size_t)(text_usd_at(text, nusd) - text)));
}

bool text_price(struct bytes in, int64_t *pusd)
{
    /* USD per million tokens = 1e-6 USD a token = 1e6 pico-dollars a token: six decimals are exact. */
    struct bytes fraction = in, whole = bytes_cut(&fraction, '.');
    uint64_t dollars, micros = 0;
    if (!bytes_to_u64(whole, &dollars) || dollars > 1000000)
        return false;
    if (fraction.p != NULL) {
        if (fraction.n == 0 || fraction.n > 6 || !bytes_to_u64(fraction, &micros))
            return false;
        for (size_t i = fraction.n; i < 6; i++)
            micros *= 10;
    }
    *pusd = (int64_t)(dollars * 1000000 + micros);
    return true;
}

void text_percent(struct buf *out, struct bytes in, const char *escape)
{
    static const char capitals[] = "0123456789ABCDEF";
    size_t from = 0;
    for (size_t i = 0; i < in.n; i++) {
        unsigned char c = (unsigned char)in.p[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); /* never in `escape`: most of a name */
        if (is_plain || (c > 0x20 && c < 0x7f && c != '%' && strchr(escape, c) == NULL))
            continue;
        char triple[3] = {'%', capitals[c >> 4], capitals[c & 15]};
        buf_put(out, bytes_slice(in, from, i));
        buf_put(out, bytes_from(triple, sizeof triple));
        from = i + 1;
    }
    buf_put(out, bytes_slice(in, from, in.n));
}
