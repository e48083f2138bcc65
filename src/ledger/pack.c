/*     [ numbers and text lengths of the head | texts ] [ the prompt's ] [ an attempt's ] [ an attempt's ] …
 *
 * One list of members per struct makes the packed struct, the writer and the reader: the three cannot drift apart.
 * Pieces lie at any address, so the structs are packed ones: written and read in place. */
#include "ledger/pack.h"

#define HEAD_NUMBERS(X)         \
    X(uint64_t, id)             \
    X(int64_t, started_wall_ms) \
    X(int64_t, ttft_us)         \
    X(int64_t, total_us)        \
    X(int64_t, gateway_us)      \
    X(int64_t, prompt_bytes)    \
    X(int64_t, max_tokens)      \
    X(uint64_t, prefix_hash)    \
    X(int64_t, cost_nusd)       \
    X(int64_t, waste_nusd)      \
    X(uint16_t, status)         \
    X(int16_t, served_link)     \
    X(uint16_t, n_attempts)     \
    X(uint16_t, n_started)      \
    X(uint8_t, outcome)         \
    X(bool, is_stream)
#define HEAD_NAMES(X) X(route) X(dialect) X(provider) X(model) /* in struct record_names */
#define HEAD_TEXTS(X) X(key) X(effort) X(adjusted) X(trace_id)

#define PROMPT_NUMBERS(X)     \
    X(uint64_t, talk_hash)    \
    X(uint64_t, head_hash)    \
    X(uint64_t, cache_hash)   \
    X(int64_t, head_bytes)    \
    X(int64_t, cache_bytes)   \
    X(int64_t, cache_ttl_s)   \
    X(uint64_t, affinity_key) \
    X(uint32_t, needs)        \
    X(bool, is_known)
#define PROMPT_TEXTS(X) X(routing)

#define ATTEMPT_NUMBERS(X)     \
    X(int64_t, start_us)       \
    X(int64_t, connect_us)     \
    X(int64_t, first_byte_us)  \
    X(int64_t, ttft_us)        \
    X(int64_t, total_us)       \
    X(struct usage, tokens)    \
    X(int64_t, cost_nusd)      \
    X(int64_t, waste_nusd)     \
    X(int64_t, retry_after_ms) \
    X(uint16_t, n)             \
    X(uint16_t, link)          \
    X(uint16_t, status)        \
    X(uint8_t, kind)           \
    X(uint8_t, outcome)        \
    X(uint8_t, tokens_from)    \
    X(bool, in_stream)         \
    X(bool, is_started)        \
    X(bool, is_served)         \
    X(uint8_t, cache_mark)     \
    X(bool, is_service_told)   \
    X(bool, is_price_standin)
#define ATTEMPT_NAMES(X) X(provider) X(model) /* of the served attempt: the very texts of the head */
#define ATTEMPT_TEXTS(X) X(price_version) X(provider_request_id) X(decision)
#define ATTEMPT_ARRAYS(X) X(service)

_Static_assert(OUTCOME_N <= UINT8_MAX, "an outcome fits a byte");

/* Lengths count the NUL; 0 = NULL, which is told apart from "". */
enum { AS_IN_HEAD = UINT16_MAX };
#define MEMBER(type, name) type name;
#define LENGTH(name) uint16_t n_##name;
#define PACKED __attribute__((packed))
struct PACKED head {
    int64_t served_input, served_output;
    HEAD_NUMBERS(MEMBER)
    HEAD_NAMES(LENGTH)
    HEAD_TEXTS(LENGTH)
    bool is_keepalive;
};
struct PACKED packed_prompt {
    PROMPT_NUMBERS(MEMBER)
    PROMPT_TEXTS(LENGTH)
};
struct PACKED packed_attempt {
    ATTEMPT_NUMBERS(MEMBER)
    ATTEMPT_NAMES(LENGTH)
    ATTEMPT_TEXTS(LENGTH)
    ATTEMPT_ARRAYS(LENGTH)
};

#define ONE(name) +1
enum {
    NAMES_BYTES_MAX = (HEAD_NAMES(ONE)) * (PACK_TEXT_MAX + 1),
    HEAD_BYTES_MAX = sizeof(struct head) + NAMES_BYTES_MAX + (HEAD_TEXTS(ONE)) * (PACK_TEXT_MAX + 1),
    PROMPT_BYTES_MAX = sizeof(struct packed_prompt) + (PROMPT_TEXTS(ONE)) * (PACK_TEXT_MAX + 1),
    ATTEMPT_BYTES_MAX = sizeof(struct packed_attempt) +
                        (ATTEMPT_NAMES(ONE) ATTEMPT_TEXTS(ONE) ATTEMPT_ARRAYS(ONE)) * (PACK_TEXT_MAX + 1)
};

/* ---- writing: into reserved room, `to` moves on ---- */

static size_t cut_length(const char *t, size_t n)
{
    if (n <= PACK_TEXT_MAX)
        return n;
    n = PACK_TEXT_MAX;
    while (n > 0 && ((unsigned char)t[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static __attribute__((noinline)) uint16_t put_words(char *to, const char *t)
{
    size_t n = cut_length(t, strlen(t));
    memcpy(to, t, n);
    to[n] = '\0';
    return (uint16_t)(n + 1);
}

static inline uint16_t put_text(char **to, const char *t)
{
    uint16_t n = 0;
    if (t != NULL && *t != '\0')
        n = put_words(*to, t);
    else if (t != NULL)
        (*to)[n++] = '\0';
    *to += n;
    return n;
}

#define PUT_NUMBER(type, name) p->name = from->name;
#define PUT_TEXT(name) p->n_##name = put_text(&to, from->name);
#define PUT_LENGTH(name) p->n_##name = names->n_##name;
#define PUT_NAME(name) p->n_##name = from->name == head->name ? AS_IN_HEAD : put_text(&to, from->name);

void pack_names(struct arena *a, const char *route, const char *dialect, const char *provider, const char *model,
                struct record_names *out)
{
    char text[NAMES_BYTES_MAX], *to = text;
    out->n_route = put_text(&to, route);
    out->n_dialect = put_text(&to, dialect);
    out->n_provider = put_text(&to, provider);
    out->n_model = put_text(&to, model);
    out->text = arena_dup(a, bytes_from(text, (size_t)(to - text)));
}

/* Each piece is written from `start` on; returns where it ends. */
static char *put_head(char *restrict start, const struct request_record *restrict from, bool is_keepalive)
{
    struct head *p = (struct head *)start;
    char *to = start + sizeof *p;
    p->is_keepalive = is_keepalive;
    p->served_input = p->served_output = -1;
    HEAD_NUMBERS(PUT_NUMBER)
    if (from->names != NULL) {
        const struct record_names *names = from->names;
        memcpy(to, names->text.p, names->text.n);
        to += names->text.n;
        HEAD_NAMES(PUT_LENGTH)
    } else {
        HEAD_NAMES(PUT_TEXT)
    }
    HEAD_TEXTS(PUT_TEXT)
    for (unsigned i = 0; i < from->n_attempts; i++)
        if (from->attempts[i].is_served) {
            p->served_input = from->attempts[i].tokens.input;
            p->served_output = from->attempts[i].tokens.output;
            break;
        }
    return to;
}

static char *put_prompt(char *restrict start, const struct prompt_record *restrict from)
{
    struct packed_prompt *p = (struct packed_prompt *)start;
    char *to = start + sizeof *p;
    PROMPT_NUMBERS(PUT_NUMBER)
    PROMPT_TEXTS(PUT_TEXT)
    return to;
}

static char *put_attempt(char *restrict start, const struct request_record *head,
                         const struct attempt_record *restrict from)
{
    struct packed_attempt *p = (struct packed_attempt *)start;
    char *to = start + sizeof *p;
    ATTEMPT_NUMBERS(PUT_NUMBER)
    ATTEMPT_NAMES(PUT_NAME)
    ATTEMPT_TEXTS(PUT_TEXT)
    ATTEMPT_ARRAYS(PUT_TEXT)
    return to;
}

static char *room_for(struct buf *out, unsigned n_attempts)
{
    char *room = buf_reserve(out, HEAD_BYTES_MAX + PROMPT_BYTES_MAX + (size_t)n_attempts * ATTEMPT_BYTES_MAX);
    RM_ASSERT(room != NULL);
    return room;
}

size_t pack_request(struct buf *out, const struct request_record *rec)
{
    char *start = room_for(out, rec->n_attempts), *end_of_head = put_head(start, rec, false);
    char *to = put_prompt(end_of_head, &rec->prompt);
    for (unsigned i = 0; i < rec->n_attempts; i++)
        to = put_attempt(to, rec, &rec->attempts[i]);
    buf_grew(out, (size_t)(to - start));
    return (size_t)(end_of_head - start);
}

void pack_keepalive(struct buf *out, uint64_t id, int64_t started_wall_ms, const struct attempt_record *a)
{
    struct attempt_record copy = *a;
    copy.kind = ATTEMPT_KEEPALIVE;
    struct request_record head = {.id = id, .started_wall_ms = started_wall_ms, .attempts = &copy, .n_attempts = 1};
    char *start = room_for(out, 1), *to = put_head(start, &head, true);
    buf_grew(out, (size_t)(put_attempt(to, &head, &copy) - start));
}

/* ---- reading: what is left of `in` moves on ---- */

static const char *take(struct bytes *in, size_t n)
{
    RM_ASSERT(n <= in->n);
    const char *at = in->p;
    in->p += n;
    in->n -= n;
    return at;
}

static const char *take_text(struct bytes *in, uint16_t n)
{
    if (n == 0)
        return NULL;
    const char *t = take(in, n);
    RM_ASSERT(t[n - 1] == '\0');
    return t;
}

static void take_array(struct bytes *in, uint16_t n, char *out, size_t cap)
{
    RM_ASSERT(n > 0 && n <= cap);
    memcpy(out, take(in, n), n);
}

#define TAKE_NUMBER(type, name) to->name = p->name;
#define TAKE_TEXT(name) to->name = take_text(in, p->n_##name);
#define TAKE_NAME(name) to->name = p->n_##name == AS_IN_HEAD ? head->name : take_text(in, p->n_##name);
#define TAKE_ARRAY(name) take_array(in, p->n_##name, to->name, sizeof to->name);

static void take_head(struct bytes *in, struct packed *out)
{
    const struct head *p = (const struct head *)take(in, sizeof *p);
    struct request_record *to = &out->record;
    HEAD_NUMBERS(TAKE_NUMBER)
    HEAD_NAMES(TAKE_TEXT)
    HEAD_TEXTS(TAKE_TEXT)
    to->prompt = (struct prompt_record){.routing = ""};
    out->is_keepalive = p->is_keepalive;
    out->served_input = p->served_input;
    out->served_output = p->served_output;
}

static void take_prompt(struct bytes *in, struct prompt_record *to)
{
    const struct packed_prompt *p = (const struct packed_prompt *)take(in, sizeof *p);
    PROMPT_NUMBERS(TAKE_NUMBER)
    PROMPT_TEXTS(TAKE_TEXT)
}

static void take_attempt(struct bytes *in, const struct request_record *head, struct attempt_record *to)
{
    const struct packed_attempt *p = (const struct packed_attempt *)take(in, sizeof *p);
    ATTEMPT_NUMBERS(TAKE_NUMBER)
    ATTEMPT_NAMES(TAKE_NAME)
    ATTEMPT_TEXTS(TAKE_TEXT)
    ATTEMPT_ARRAYS(TAKE_ARRAY)
}

void pack_read(struct bytes in, struct arena *arena, struct packed *out)
{
    struct request_record *r = &out->record;
    memset(out, 0, sizeof *out);
    take_head(&in, out);
    if (in.n == 0)
        return;
    if (!out->is_keepalive)
        take_prompt(&in, &r->prompt);
    r->attempts = ARENA_ARRAY(arena, struct attempt_record, r->n_attempts);
    for (unsigned i = 0; i < r->n_attempts; i++)
        take_attempt(&in, r, &r->attempts[i]);
    RM_ASSERT(in.n == 0);
}
