/* The layers of a body, pulled from the top:
 *
 *     payload --(inflater)--> plain --sniff--> sse -----> decoder_event --> output per event
 *                                        '---> collect -> decoder_whole --> one output at the end
 *
 * Each layer is asked for what it has before it is fed again, so a view handed out is never overwritten and nothing
 * between the layers needs a queue.
 *
 * Sniffing: providers send SSE labelled as JSON and JSON labelled as SSE. The first byte that is not blank decides
 * between them; a label that names neither is believed only if the body begins like SSE, or like an object where the
 * label is plain text or absent. */
#include "upstream/answer.h"

#include "base/check.h"
#include "base/mem.h"

static void fail(struct answer *a, enum outcome o, const char *why)
{
    a->is_failed = true;
    a->failure = ARENA_NEW(a->arena, struct failure);
    failure_make(a->failure, o, why);
}

/* ---- labels and first bytes ---- */

enum label { LABEL_LOOSE, LABEL_JSON, LABEL_SSE, LABEL_HTML };

static enum label label_of(struct bytes type)
{
    if (bytes_is(type, "application/json")) /* as nearly all write it */
        return LABEL_JSON;
    struct bytes first = bytes_trim(bytes_cut(&type, ';'));
    if (bytes_eq_nocase(first, BYTES("application/json")) || bytes_ends_with(first, BYTES("+json")))
        return LABEL_JSON;
    if (bytes_eq_nocase(first, BYTES("text/event-stream")))
        return LABEL_SSE;
    return bytes_eq_nocase(first, BYTES("text/html")) ? LABEL_HTML : LABEL_LOOSE;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct bytes without_blanks(struct bytes in)
{
    struct bytes bom = BYTES("\xef\xbb\xbf");
    for (;;) {
        while (in.n > 0 && is_blank(in.p[0]))
            in = bytes_slice(in, 1, in.n);
        if (!bytes_starts_with(in, bom))
            return in;
        in = bytes_slice(in, bom.n, in.n);
    }
}

enum sniffed { SNIFFED_MORE, SNIFFED_SSE, SNIFFED_JSON, SNIFFED_OTHER };

static enum sniffed sniff_bytes(struct bytes in)
{
    static const char *const words[] = {":", "data:", "event:", "id:", "retry:", "error:"};
    if (in.n == 0)
        return SNIFFED_MORE;
    if (in.p[0] == '{')
        return SNIFFED_JSON;
    bool may_be = in.n < 3 && bytes_starts_with(BYTES("\xef\xbb\xbf"), in);
    for (size_t i = 0; i < RM_COUNTOF(words); i++) {
        if (bytes_starts_with(in, bytes_of(words[i])))
            return SNIFFED_SSE;
        may_be |= bytes_starts_with(bytes_of(words[i]), in);
    }
    return may_be ? SNIFFED_MORE : SNIFFED_OTHER;
}

/* ---- feeding the layer below ---- */

/* A body that came in one read is decoded where it lies: `body` has its bytes then, and no memory. */
static bool is_lent(const struct answer *a)
{
    return a->body.n > 0 && a->body.cap == 0;
}

static void keep(struct answer *a)
{
    struct bytes lent = buf_bytes(&a->body);
    a->body = (struct buf){0};
    buf_put(&a->body, lent);
}

/* So many more bytes of a JSON body. */
static bool has_room(struct answer *a, size_t n)
{
    if (a->body.n <= a->max_body && n <= a->max_body - a->body.n)
        return true;
    fail(a, OUTCOME_PROTOCOL_ERROR, "the answer is larger than body_bytes allows");
    return false;
}

static void collect(struct answer *a, struct bytes plain)
{
    if (a->mode == ANSWER_REFUSAL) {
        buf_put(&a->body, bytes_slice(plain, 0, REFUSAL_BYTES_MAX - a->body.n));
        return;
    }
    if (!has_room(a, plain.n))
        return;
    if (a->coding == CODING_NONE && a->body.p == NULL) {
        a->body = (struct buf){.p = (char *)(uintptr_t)plain.p, .n = plain.n};
        return;
    }
    if (is_lent(a))
        keep(a);
    buf_put(&a->body, plain);
}

static void feed_mode(struct answer *a, struct bytes plain)
{
    if (a->mode == ANSWER_SSE)
        sse_feed(&a->sse, plain);
    else
        collect(a, plain);
}

static void settle(struct answer *a, enum sniffed s)
{
    /* Under a good label, what begins like neither is left to the reader that the label names. */
    if (s == SNIFFED_OTHER && a->label_is_loose)
        fail(a, OUTCOME_PROTOCOL_ERROR, "the answer is neither JSON nor an event stream");
    else if (s == SNIFFED_OTHER)
        a->mode = a->label_is_sse ? ANSWER_SSE : ANSWER_JSON;
    else
        a->mode = s == SNIFFED_JSON ? ANSWER_JSON : ANSWER_SSE;
}

/* The first bytes may be split anywhere: they wait in `body` until they tell, without what is blank before them. */
static void sniff(struct answer *a, struct bytes plain)
{
    bool has_kept = a->body.n > 0;
    struct bytes first = without_blanks(plain);
    if (has_kept) {
        buf_put(&a->body, plain);
        buf_drop(&a->body, a->body.n - without_blanks(buf_bytes(&a->body)).n);
        first = buf_bytes(&a->body);
    }
    enum sniffed s = sniff_bytes(first);
    if (s != SNIFFED_MORE)
        settle(a, s);
    else if (!has_kept)
        buf_put(&a->body, first);
    if (a->mode == ANSWER_SSE)
        sse_feed(&a->sse, first); /* what was kept stays until the answer is over */
    else if (a->mode == ANSWER_JSON && has_kept)
        (void)has_room(a, 0);
    else if (a->mode == ANSWER_JSON)
        collect(a, first);
}

/* Plain bytes for the layers above. False: none without more input, or failed. */
static bool take_plain(struct answer *a, struct bytes *plain)
{
    if (a->coding == CODING_NONE) {
        *plain = a->in;
        a->in = (struct bytes){0};
        return plain->n > 0;
    }
    if (a->coding == CODING_OTHER) {
        a->in = (struct bytes){0};
        return false;
    }
    size_t n = 0;
    if (a->plain == NULL)
        a->plain = readbuf_take(a->reads);
    enum inflate_result r = inflater_next(a->inflater, &a->in, a->plain, READBUF_BYTES, &n);
    *plain = (struct bytes){a->plain, n};
    if (r == INFLATE_DATA)
        return true;
    readbuf_put(a->reads, a->plain);
    a->plain = NULL;
    if (r == INFLATE_BAD && a->mode != ANSWER_REFUSAL)
        fail(a, OUTCOME_PROTOCOL_ERROR, "the answer's content coding is broken");
    a->in = (struct bytes){0};
    return false;
}

/* ---- decoding ---- */

/* A batch with an error event: what came before it is told first, then the failure. */
static enum answer_result split_error(struct answer *a, struct output *out)
{
    size_t at = 0;
    if (!a->decoder.has_error)
        return ANSWER_OUTPUT;
    while (at < out->n && out->v[at].kind != EVENT_ERROR)
        at++;
    if (at == out->n)
        return ANSWER_OUTPUT;
    a->is_failed = true;
    a->failure = a->decoder.failure;
    a->failure->in_stream = true;
    out->n = at;
    out->is_dropped = true; /* the provider's error is told in our words */
    return at > 0 ? ANSWER_OUTPUT : ANSWER_FAILED;
}

static void set_batch(struct output *out, const struct decoded *d)
{
    out->is_dropped = d->is_dropped;
    out->v = d->v;
    out->n = d->n;
}

/* The event just given lies in the fed bytes themselves: not completed from an earlier feed, not inflated. */
static bool is_lasting(const struct answer *a)
{
    return a->coding == CODING_NONE && !a->sse.rest_is_done;
}

/* The next event, if it is the one before with other text: it has no error, and cannot be malformed. */
static bool decode_ahead(struct answer *a, struct output *out)
{
    struct bytes ahead = sse_ahead(&a->sse);
    size_t n = ahead.n > 0 ? decoder_ahead(&a->decoder, ahead, out) : 0;
    if (n == 0)
        return false;
    sse_pass(&a->sse, n);
    out->is_lasting = a->coding == CODING_NONE;
    a->is_dry = out->is_lasting && sse_is_used_up(&a->sse);
    return true;
}

static enum answer_result decode_event(struct answer *a, const struct sse_event *ev, struct output *out)
{
    struct decoded d;
    decoder_event(&a->decoder, ev, &d);
    if (d.is_malformed) {
        if (a->skip_bad_events)
            return ANSWER_MORE;
        fail(a, OUTCOME_PROTOCOL_ERROR, d.why ? d.why : "a malformed event");
        return ANSWER_FAILED;
    }
    *out = (struct output){.raw = ev->raw, .raw_is_stream = true, .is_lasting = is_lasting(a)};
    set_batch(out, &d);
    if (d.strip_at != d.strip_end && ev->is_verbatim) {
        size_t from = (size_t)(ev->data.p - ev->raw.p);
        out->strip_at = from + d.strip_at;
        out->strip_end = from + d.strip_end;
    }
    return split_error(a, out);
}

/* ANSWER_MORE: the reader wants more bytes. */
static enum answer_result next_event(struct answer *a, struct output *out)
{
    struct sse_event ev;
    if (decode_ahead(a, out))
        return ANSWER_OUTPUT;
    for (;;) {
        enum answer_result r;
        switch (sse_next(&a->sse, &ev)) {
        case SSE_MORE:
            return ANSWER_MORE;
        case SSE_COMMENT:
            *out = (struct output){.raw = ev.raw, .raw_is_stream = true, .is_lasting = is_lasting(a)};
            return ANSWER_OUTPUT;
        case SSE_TOO_LARGE:
            fail(a, OUTCOME_PROTOCOL_ERROR, "an event is larger than event_bytes allows");
            return ANSWER_FAILED;
        case SSE_EVENT:
            r = decode_event(a, &ev, out);
            if (r != ANSWER_MORE)
                return r;
            break;
        }
    }
}

static enum answer_result decode_whole(struct answer *a, struct output *out)
{
    struct decoded d;
    decoder_whole(&a->decoder, buf_bytes(&a->body), &d);
    if (d.is_malformed) {
        fail(a, OUTCOME_PROTOCOL_ERROR, d.why ? d.why : "the answer is not JSON of its dialect");
        return ANSWER_FAILED;
    }
    *out = (struct output){.raw = buf_bytes(&a->body), .body = is_lent(a) ? NULL : &a->body};
    set_batch(out, &d);
    if (d.strip_at != d.strip_end) {
        out->strip_at = d.strip_at;
        out->strip_end = d.strip_end;
    }
    return split_error(a, out);
}

/* The last event came without its empty line: given one, if it says something whole. */
static enum answer_result decode_rest(struct answer *a, struct output *out)
{
    struct sse_event ev;
    if (!sse_end(&a->sse, &ev))
        return ANSWER_MORE;
    bool skips = a->skip_bad_events;
    a->skip_bad_events = true; /* half an event is not malformed, it is missing */
    enum answer_result r = decode_event(a, &ev, out);
    a->skip_bad_events = skips;
    if (r != ANSWER_OUTPUT)
        return r;
    buf_clear(&a->body);
    buf_put(&a->body, out->raw);
    buf_puts(&a->body, bytes_ends_with(out->raw, BYTES("\n")) ? "\n" : "\n\n");
    out->raw = buf_bytes(&a->body);
    return r;
}

/* ---- the owner's calls ---- */

void answer_init(struct answer *a, const struct answer_spec *spec, const struct head *head)
{
    enum label label = label_of(fields_get(&head->fields, "content-type"));
    memset(a, 0, offsetof(struct answer, sse)); /* what follows begins by itself */
    a->arena = spec->arena;
    a->reads = spec->reads;
    a->max_body = spec->max_body;
    a->skip_bad_events = spec->skip_bad_events;
    a->coding = coding_of(fields_get(&head->fields, "content-encoding"));
    a->mode = head->status >= 400 ? ANSWER_REFUSAL : ANSWER_SNIFF;
    a->label_is_sse = label == LABEL_SSE;
    a->label_is_loose = label == LABEL_LOOSE || label == LABEL_HTML;
    if (a->coding == CODING_GZIP || a->coding == CODING_DEFLATE) {
        a->inflater = mem_alloc(sizeof *a->inflater);
        inflater_init(a->inflater, a->coding);
    }
    sse_init(&a->sse, spec->max_event);
    decoder_init(&a->decoder, spec->target, spec->vendor, spec->max_depth, spec->strips_usage);
    a->decoder.is_text_unread = spec->is_text_unread;
    a->decoder.form = spec->form;
    if (a->mode == ANSWER_REFUSAL)
        return;
    if (a->coding == CODING_OTHER)
        fail(a, OUTCOME_PROTOCOL_ERROR, "the answer has a content coding that was not asked for");
    else if (label == LABEL_HTML)
        fail(a, OUTCOME_PROTOCOL_ERROR, "the answer is an HTML page");
}

void answer_fini(struct answer *a)
{
    if (a->inflater != NULL)
        inflater_fini(a->inflater);
    mem_free(a->inflater);
    a->inflater = NULL;
    readbuf_put(a->reads, a->plain);
    a->plain = NULL;
    if (!is_lent(a))
        buf_fini(&a->body);
    sse_fini(&a->sse);
    decoder_fini(&a->decoder);
}

void answer_keep(struct answer *a)
{
    if (is_lent(a))
        keep(a);
}

void answer_feed(struct answer *a, struct bytes in)
{
    RM_ASSERT(a->in.n == 0);
    a->is_dry = false;
    if (a->mode == ANSWER_SSE && a->coding == CODING_NONE)
        sse_feed(&a->sse, in);
    else
        a->in = in;
}

bool answer_feed_known(struct answer *a, struct bytes in, struct output *out)
{
    bool is_event_due = a->mode == ANSWER_SSE && a->coding == CODING_NONE && sse_is_between(&a->sse) &&
                        (a->sse.max_event == 0 || in.n <= a->sse.max_event);
    size_t n = is_event_due ? decoder_ahead(&a->decoder, in, out) : 0;
    RM_ASSERT(a->is_dry);
    if (n < in.n)
        answer_feed(a, bytes_slice(in, n, in.n));
    out->is_lasting = true;
    return n > 0;
}

bool answer_rests(const struct answer *a)
{
    return a->is_dry && a->decoder.scratch.last == NULL && !answer_is_finished(a);
}

enum answer_result answer_next(struct answer *a, struct output *out)
{
    struct bytes plain;
    for (;;) {
        if (a->is_failed)
            return ANSWER_FAILED;
        if (a->decoder.has_done)
            return ANSWER_DONE;
        enum answer_result r = sse_is_used_up(&a->sse) ? ANSWER_MORE : next_event(a, out);
        if (r != ANSWER_MORE)
            return r;
        if (!take_plain(a, &plain)) {
            if (a->is_failed)
                continue;
            a->is_dry = true;
            decoder_rest(&a->decoder);
            return ANSWER_MORE;
        } else if (a->mode == ANSWER_SNIFF) {
            sniff(a, plain);
        } else {
            feed_mode(a, plain);
        }
    }
}

static enum answer_result end_once(struct answer *a, struct output *out)
{
    switch (a->mode) {
    case ANSWER_SSE:
        return decode_rest(a, out);
    case ANSWER_JSON:
        return decode_whole(a, out);
    case ANSWER_SNIFF:
        fail(a, a->body.n == 0 ? OUTCOME_STREAM_ERROR : OUTCOME_PROTOCOL_ERROR,
             a->body.n == 0 ? "the answer was empty" : "the answer is neither JSON nor an event stream");
        return ANSWER_FAILED;
    case ANSWER_REFUSAL:
        break;
    }
    return ANSWER_DONE;
}

enum answer_result answer_end(struct answer *a, struct output *out)
{
    *out = (struct output){0};
    if (a->is_failed)
        return ANSWER_FAILED;
    if (!a->is_ended) {
        a->is_ended = true;
        enum answer_result r = end_once(a, out);
        if (r != ANSWER_MORE)
            return r;
    }
    return answer_cut(a, "the stream ended without its terminal event");
}

enum answer_result answer_cut(struct answer *a, const char *why)
{
    if (!a->is_failed && (a->mode == ANSWER_REFUSAL || decoder_is_complete(&a->decoder)))
        return ANSWER_DONE;
    if (!a->is_failed)
        fail(a, OUTCOME_STREAM_ERROR, why);
    return ANSWER_FAILED;
}

bool answer_is_finished(const struct answer *a)
{
    return a->mode != ANSWER_REFUSAL && !a->is_failed && decoder_is_complete(&a->decoder);
}

bool answer_is_told(const struct answer *a)
{
    return a->mode == ANSWER_JSON && a->is_ended && !a->is_failed && decoder_is_complete(&a->decoder);
}

struct bytes answer_refusal(const struct answer *a)
{
    return buf_bytes(&a->body);
}

bool answer_refusal_is_full(const struct answer *a)
{
    return a->body.n >= REFUSAL_BYTES_MAX;
}
