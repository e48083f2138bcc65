/* The laws of a seeded story, judged by what clients, providers and ledger saw of each other:
 *
 *     what came is HTTP; an answer is whole unless its client left or was cut
 *     a stream ends in exactly one way: its marker, or an error told in it
 *     an answer's tokens come from one attempt, in order, none missing
 *     the ledger has each answer once, with the status and the end that the client saw
 *     no request is in flight longer than its client is there */
#include "chance.h"

#include "base/text.h"

#include <stdlib.h>

#define LAW(c, cond) CHECK(&(c)->world, cond)

static bool is_there(const struct guest *g)
{
    return g->client != NULL && g->client->stream != NULL && !g->has_left;
}

void laws_check_step(struct chance *c)
{
    struct world *w = &c->world;
    int64_t n_there = 0;
    for (size_t i = 0; i < c->n_guests; i++)
        n_there += is_there(&c->guests[i]);
    LAW(c, world_live(w, MEM_RELAY) <= n_there);
    if (!c->has_keepalive)
        LAW(c, world_live(w, MEM_EXCHANGE) <= world_live(w, MEM_RELAY));
}

/* ---- one answer ---- */

static size_t count(struct bytes hay, const char *needle)
{
    size_t n = 0, at;
    while ((at = bytes_find(hay, bytes_of(needle))) != SIZE_MAX) {
        n++;
        hay = bytes_slice(hay, at + 1, hay.n);
    }
    return n;
}

struct marks {
    char provider;
    unsigned request, n; /* 0, 1, … n - 1 came */
    bool is_mixed;       /* two attempts, or out of order */
};

static struct marks marks_of(struct bytes body)
{
    struct marks m = {0};
    size_t at;
    while ((at = bytes_find_byte(body, '~')) != SIZE_MAX) {
        size_t end = bytes_find_byte(bytes_slice(body, at + 1, body.n), '~');
        if (end == SIZE_MAX)
            return m;
        char text[32] = "", *dot;
        memcpy(text, body.p + at + 1, end < sizeof text - 1 ? end : sizeof text - 1);
        unsigned request = (unsigned)strtoul(text + 2, &dot, 10), number = (unsigned)strtoul(dot + 1, NULL, 10);
        if (m.n > 0)
            m.is_mixed = m.is_mixed || m.provider != text[0] || m.request != request;
        m.is_mixed = m.is_mixed || number != m.n;
        m.provider = text[0];
        m.request = request;
        m.n++;
        body = bytes_slice(body, at + end + 2, body.n);
    }
    return m;
}

static const struct row *row_of(struct chance *c, struct bytes answer)
{
    static const char name[] = "x-ringmain-request-id: ";
    const struct row *found = NULL;
    size_t at = bytes_find(answer, bytes_of(name));
    uint64_t id = 0;
    if (at == SIZE_MAX ||
        !text_id_parse(bytes_slice(answer, at + sizeof name - 1, at + sizeof name - 1 + TEXT_ID_BYTES - 1), &id))
        return NULL;
    for (size_t i = 0; i < c->world.ledger.n; i++)
        if (c->world.ledger.rows[i].id == id) {
            LAW(c, found == NULL); /* once */
            found = &c->world.ledger.rows[i];
        }
    return found;
}

static const struct row_attempt *served(const struct row *row)
{
    for (unsigned i = 0; i < row->n_attempts; i++)
        if (row->attempts[i].is_served)
            return &row->attempts[i];
    return NULL;
}

static unsigned n_served(const struct row *row)
{
    unsigned n = 0;
    for (unsigned i = 0; i < row->n_attempts; i++)
        n += row->attempts[i].is_served;
    return n;
}

static unsigned said(struct chance *c, struct marks m)
{
    return c->world.providers[m.provider - 'a'].n_said[m.request];
}

static void check_tokens(struct chance *c, const struct row *row, struct marks m, bool is_ok)
{
    LAW(c, !m.is_mixed); /* nothing doubled, nothing missing, whoever went on */
    c->seen.n_resumed += n_served(row) > 1;
    LAW(c, c->is_deterministic || n_served(row) <= 1);
    if (m.n == 0 || c->is_deterministic)
        return;
    const struct row_attempt *a = served(row);
    LAW(c, a != NULL && a->provider[0] == m.provider);
    LAW(c, m.n <= said(c, m));
    LAW(c, !is_ok || m.n == said(c, m));
}

static void check_stream(struct chance *c, const struct row *row, struct bytes body)
{
    size_t n_done = count(body, "data: [DONE]\n") + count(body, "event: message_stop\n");
    size_t n_errors = count(body, "data: {\"error\":") + count(body, "event: error\n");
    LAW(c, n_done + n_errors == 1);
    LAW(c, (n_done == 1) == (row->outcome == OUTCOME_OK));
    LAW(c, n_errors == 0 ||
               count(body, "\"finish_reason\":\"stop\"") + count(body, "\"stop_reason\":\"end_turn\"") == 0 ||
               row->outcome != OUTCOME_OK);
    check_tokens(c, row, marks_of(body), n_done == 1);
}

static void check_answer(struct chance *c, const struct answer_seen *seen, struct bytes answer)
{
    const struct row *row = row_of(c, answer);
    struct bytes body = buf_bytes(&seen->body);
    LAW(c, row != NULL);
    if (row == NULL)
        return;
    LAW(c, row->status == seen->status);
    c->seen.n_answers++;
    if (row->outcome == OUTCOME_OK)
        c->seen.n_ok++;
    else
        c->seen.n_errors++;
    if (seen->status != 200)
        LAW(c, row->outcome != OUTCOME_OK && marks_of(body).n == 0);
    else if (row->is_stream)
        check_stream(c, row, body);
    else
        check_tokens(c, row, marks_of(body), row->outcome == OUTCOME_OK);
}

/* ---- one guest ---- */

static void check_guest(struct chance *c, const struct guest *g)
{
    if (g->client == NULL)
        return;
    struct bytes got = buf_bytes(&g->client->got);
    size_t at = 0;
    unsigned n_whole = 0;
    bool says_close = false, is_whole = true;
    while (at < got.n && is_whole) {
        struct answer_seen seen;
        size_t from = at;
        answer_see(got, &at, &seen);
        LAW(c, !seen.is_broken);
        is_whole = seen.is_whole;
        if (is_whole) {
            struct bytes answer = bytes_slice(got, from, at);
            check_answer(c, &seen, answer);
            says_close = bytes_find(answer, BYTES("\r\nconnection: close\r\n")) != SIZE_MAX;
            n_whole++;
        }
        buf_fini(&seen.body);
    }
    c->seen.n_partial += !is_whole;
    c->seen.n_left += g->has_left;
    LAW(c, is_whole || g->has_left || c->is_cut);
    LAW(c, n_whole <= g->n_asked);
    if (!g->has_left && !c->is_drained)
        LAW(c, n_whole == g->n_asks || says_close);
}

void laws_check_end(struct chance *c)
{
    struct world *w = &c->world;
    for (size_t i = 0; i < c->n_guests; i++)
        check_guest(c, &c->guests[i]);
    for (unsigned i = 0; i < w->n_workers; i++)
        LAW(c, worker_in_flight(w->workers[i]) == 0);
    LAW(c, world_live(w, MEM_RELAY) == 0);
}
