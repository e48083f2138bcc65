#include "price/show.h"

__extension__ typedef __int128 wide;

static int64_t power(unsigned places)
{
    int64_t v = 1;
    RM_ASSERT(places <= SHOW_PLACES_MAX);
    for (unsigned i = 0; i < places; i++)
        v *= 10;
    return v;
}

static int64_t divide(wide v, wide by)
{
    wide half = by / 2;
    wide q = v < 0 ? -((-v + half) / by) : (v + half) / by;
    return q > INT64_MAX ? INT64_MAX : q < -INT64_MAX ? -INT64_MAX : (int64_t)q;
}

void show_fixed(struct buf *out, int64_t v, unsigned places, bool sign)
{
    uint64_t abs = v < 0 ? 0 - (uint64_t)v : (uint64_t)v, unit = (uint64_t)power(places);
    buf_puts(out, v < 0 ? "-" : sign ? "+" : "");
    buf_put_u64(out, abs / unit);
    if (places > 0)
        buf_printf(out, ".%0*llu", (int)places, (unsigned long long)(abs % unit));
}

static void put_amount(struct buf *out, int64_t nusd, unsigned places, bool sign)
{
    if (nusd == NUSD_UNKNOWN) {
        buf_puts(out, "unknown");
        return;
    }
    int64_t v = divide(nusd, power(SHOW_PLACES_MAX - places));
    buf_puts(out, v < 0 ? "-$" : sign ? "+$" : "$");
    show_fixed(out, v < 0 ? -v : v, places, false);
}

void show_usd(struct buf *out, int64_t nusd, unsigned places)
{
    put_amount(out, nusd, places, false);
}

void show_change(struct buf *out, int64_t nusd, unsigned places)
{
    put_amount(out, nusd, places, true);
}

int64_t show_ratio(int64_t part, int64_t whole, int64_t scale, unsigned places)
{
    if (whole == 0)
        return 0;
    wide v = (wide)part * scale * power(places), by = whole;
    return by < 0 ? divide(-v, -by) : divide(v, by);
}

void show_ppm(struct buf *out, uint32_t ppm)
{
    struct buf text = {0};
    show_fixed(&text, ppm, 4, false);
    size_t n = text.n;
    while (n > 1 && text.p[n - 1] == '0')
        n--;
    if (text.p[n - 1] == '.')
        n--;
    buf_put(out, bytes_slice(buf_bytes(&text), 0, n));
    buf_puts(out, " %");
    buf_fini(&text);
}

bool show_ppm_parse(struct bytes in, uint32_t *ppm)
{
    bool is_percent = bytes_ends_with(in, BYTES("%"));
    struct bytes fraction = bytes_trim(is_percent ? bytes_slice(in, 0, in.n - 1) : in);
    size_t places = is_percent ? 4 : 6; /* that a millionth has */
    struct bytes whole = bytes_cut(&fraction, '.');
    uint64_t v, rest = 0;
    if (!bytes_to_u64(whole, &v) || v > 100)
        return false;
    while (fraction.n > places && fraction.p[fraction.n - 1] == '0')
        fraction.n--;
    if (fraction.p != NULL && (fraction.n == 0 || fraction.n > places || !bytes_to_u64(fraction, &rest)))
        return false;
    for (size_t i = fraction.n; i < places; i++)
        rest *= 10;
    v = v * (uint64_t)power((unsigned)places) + rest;
    if (v > 1000000)
        return false;
    *ppm = (uint32_t)v;
    return true;
}
