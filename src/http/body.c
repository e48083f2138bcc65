/* Bodies: a small state machine that walks framed bytes and hands out the payload as views, so that nothing is copied
 * and any split gives the same bytes. Chunked coding is read strictly (RFC 9112 7.1): hexadecimal digits only, CRLF
 * everywhere. Extensions and trailers are walked over and bounded; nobody reads them. */
#include "http/body.h"

#include "base/check.h"

enum { LINE_BYTES_MAX = 8192, SIZE_DIGITS_MAX = 16, WHOLE_DIGITS_MAX = 7 };

void body_init(struct body_reader *b, enum framing framing, uint64_t content_length)
{
    *b = (struct body_reader){.framing = (uint8_t)framing, .left = framing == FRAMING_LENGTH ? content_length : 0};
}

/* -1 = none. */
static int hex_digit(unsigned char c)
{
    static const int8_t over[256] = {
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
        ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
        ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16};
    return over[c] - 1;
}

static void add_digit(struct body_reader *b, int digit)
{
    bool is_over = b->digits == SIZE_DIGITS_MAX || (b->size >> 60) != 0;
    b->digits++;
    b->size = b->size << 4 | (uint64_t)digit;
    b->state = is_over ? BODY_BROKEN : BODY_SIZE;
}

static void read_size(struct body_reader *b, unsigned char c)
{
    int digit = hex_digit(c);
    if (digit >= 0)
        add_digit(b, digit);
    else if (b->digits == 0)
        b->state = BODY_BROKEN;
    else if (c == ';')
        b->state = BODY_EXT;
    else
        b->state = c == '\r' ? BODY_SIZE_LF : BODY_BROKEN;
}

static void begin_chunk(struct body_reader *b, unsigned char c)
{
    b->left = b->size;
    b->state = c != '\n' ? BODY_BROKEN : b->size == 0 ? BODY_TRAILER : BODY_IN_CHUNK;
    b->size = 0;
    b->digits = 0;
    b->line_bytes = 0;
}

/* One byte of an extension or trailer line; `after` is where its CR leads. */
static void read_line(struct body_reader *b, unsigned char c, enum body_state after)
{
    bool is_text = c == '\t' || (c >= 0x20 && c != 0x7f);
    if (++b->line_bytes > LINE_BYTES_MAX || (!is_text && c != '\r'))
        b->state = BODY_BROKEN;
    else if (c == '\r')
        b->state = (uint8_t)after;
}

static void read_trailer_start(struct body_reader *b, unsigned char c)
{
    b->state = BODY_TRAILER_LINE;
    if (c == ' ' || c == '\t' || c == ':')
        b->state = BODY_BROKEN;
    else
        read_line(b, c, BODY_LAST_LF);
}

/* One byte of chunk framing. */
static void step(struct body_reader *b, unsigned char c)
{
    switch ((enum body_state)b->state) {
    case BODY_SIZE:
        read_size(b, c);
        return;
    case BODY_EXT:
        read_line(b, c, BODY_SIZE_LF);
        return;
    case BODY_SIZE_LF:
        begin_chunk(b, c);
        return;
    case BODY_CHUNK_CR:
        b->state = c == '\r' ? BODY_CHUNK_LF : BODY_BROKEN;
        return;
    case BODY_CHUNK_LF:
        b->state = c == '\n' ? BODY_SIZE : BODY_BROKEN;
        return;
    case BODY_TRAILER:
        read_trailer_start(b, c);
        return;
    case BODY_TRAILER_LINE:
        read_line(b, c, BODY_TRAILER_LF);
        return;
    case BODY_TRAILER_LF:
        b->state = c == '\n' ? BODY_TRAILER : BODY_BROKEN;
        return;
    case BODY_LAST_LF:
        b->state = c == '\n' ? BODY_WHOLE : BODY_BROKEN;
        return;
    case BODY_IN_CHUNK:
    case BODY_WHOLE:
    case BODY_BROKEN:
        break;
    }
    RM_UNREACHABLE();
}

bool body_whole_chunk(const struct body_reader *b, struct bytes *in, struct bytes *out)
{
    const char *p = in->p;
    size_t n = in->n, at = 0, size = 0, most = n < WHOLE_DIGITS_MAX ? n : WHOLE_DIGITS_MAX;
    if (b->framing != FRAMING_CHUNKED || b->state != BODY_SIZE || b->digits != 0)
        return false;
    for (int digit; at < most && (digit = hex_digit((unsigned char)p[at])) >= 0; at++)
        size = size << 4 | (size_t)digit;
    if (size == 0 || n - at < size + 4 || p[at] != '\r' || p[at + 1] != '\n')
        return false;
    const char *end = p + at + 2 + size;
    if (end[0] != '\r' || end[1] != '\n')
        return false;
    *out = (struct bytes){p + at + 2, size};
    *in = (struct bytes){end + 2, n - at - size - 4};
    return true;
}

static struct bytes take(struct bytes *in, size_t n)
{
    struct bytes out = {in->p, n};
    in->p += n;
    in->n -= n;
    return out;
}

/* The usual head of a chunk in one go: a few digits and CRLF. What is not quite so is left to step. */
static void pass_head(struct body_reader *b, struct bytes *in)
{
    size_t most = in->n < 8 ? in->n : 8, at = 0;
    uint64_t size = 0;
    for (int digit; at < most && (digit = hex_digit((unsigned char)in->p[at])) >= 0; at++)
        size = size << 4 | (uint64_t)digit;
    if (size == 0 || in->n - at < 2 || in->p[at] != '\r' || in->p[at + 1] != '\n')
        return;
    (void)take(in, at + 2);
    b->left = size;
    b->state = BODY_IN_CHUNK;
    b->line_bytes = 0;
}

static struct bytes take_data(struct body_reader *b, struct bytes *in)
{
    struct bytes out = take(in, b->left < in->n ? (size_t)b->left : in->n);
    b->left -= out.n;
    if (b->left > 0)
        return out;
    b->state = BODY_CHUNK_CR;
    if (in->n >= 2 && in->p[0] == '\r' && in->p[1] == '\n') { /* the rule */
        (void)take(in, 2);
        b->state = BODY_SIZE;
    }
    return out;
}

static enum body_result next_chunked(struct body_reader *b, struct bytes *in, struct bytes *out)
{
    if (b->state == BODY_SIZE && b->digits == 0)
        pass_head(b, in);
    while (in->n > 0 && b->state < BODY_WHOLE) {
        if (b->state == BODY_IN_CHUNK) {
            *out = take_data(b, in);
            return BODY_DATA;
        }
        step(b, (unsigned char)take(in, 1).p[0]);
    }
    return b->state == BODY_WHOLE ? BODY_END : b->state == BODY_BROKEN ? BODY_BAD : BODY_MORE;
}

static enum body_result next_of_length(struct body_reader *b, struct bytes *in, struct bytes *out)
{
    if (b->left == 0)
        return BODY_END;
    if (in->n == 0)
        return BODY_MORE;
    *out = take(in, b->left < in->n ? (size_t)b->left : in->n);
    b->left -= out->n;
    return BODY_DATA;
}

enum body_result body_next(struct body_reader *b, struct bytes *in, struct bytes *out)
{
    *out = (struct bytes){0};
    switch ((enum framing)b->framing) {
    case FRAMING_NONE:
        return BODY_END;
    case FRAMING_LENGTH:
        return next_of_length(b, in, out);
    case FRAMING_CHUNKED:
        return next_chunked(b, in, out);
    case FRAMING_UNTIL_CLOSE:
        if (in->n == 0)
            return BODY_MORE;
        *out = take(in, in->n);
        return BODY_DATA;
    }
    RM_UNREACHABLE();
    return BODY_BAD;
}

bool body_is_whole_at_close(const struct body_reader *b)
{
    switch ((enum framing)b->framing) {
    case FRAMING_NONE:
    case FRAMING_UNTIL_CLOSE:
        return true;
    case FRAMING_LENGTH:
        return b->left == 0;
    case FRAMING_CHUNKED:
        return b->state == BODY_WHOLE;
    }
    return false;
}
