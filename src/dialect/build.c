/* Body for a target. Same dialect: the client's own bytes with a few top-level members spliced (DESIGN 3.13); every
 * edit is decided here, in a fixed order, so that equal input gives equal bytes. Other dialect: parsed into our own
 * words and rendered anew. A link's `set` and `drop` come last in both, and win over what was decided before. */
#include "dialect/markers.h"
#include "dialect/members.h"
#include "dialect/request_impl.h"
#include "dialect/walk.h"

enum { LINKS_MAX = 34, DECIDED_MAX = 14, EDITS_MAX = LINKS_MAX + DECIDED_MAX, MEMBERS_MAX = CHAT_MEMBERS + LINKS_MAX };

/* Signatures that our encoder gives to reasoning which is not Anthropic's begin so; see the Messages encoder. */
#define OWN_MARK "rm1:"

/* Members are the dialect's, by number (none in a translated body), then others that the link sets or drops. */
struct edits {
    const struct json_member *names; /* n_own of them: of the dialect's */
    size_t n_own, n_others, n;
    struct bytes text;
    struct json_scan scan;
    const struct json_member *v_members;     /* where they stand in the text */
    uint32_t found;                          /* of the dialect's own, a bit for each that v_members tells of: the others
                                                are not there */
    const char *others[LINKS_MAX];           /* n_others of them */
    struct json_edit v[EDITS_MAX];           /* n */
    struct json_member members[MEMBERS_MAX]; /* where they were looked for here */
};

struct building {
    const struct call *call;
    const struct profile *profile;
    unsigned max_depth;
    struct arena *arena;
    struct buf *adjusted;
    const char **why;
    struct edits edits;
};

/* ---- what was changed ---- */

void adjusted_put(struct buf *adjusted, const char *name, const char *value)
{
    if (adjusted->n > 0)
        buf_puts(adjusted, ", ");
    buf_puts(adjusted, name);
    buf_putc(adjusted, '=');
    buf_puts(adjusted, value);
}

void adjusted_put_int(struct buf *adjusted, const char *name, int64_t value)
{
    adjusted_put(adjusted, name, "");
    buf_put_i64(adjusted, value);
}

void adjusted_put_dropped(struct buf *adjusted, struct bytes name)
{
    if (adjusted->n > 0)
        buf_puts(adjusted, ", ");
    buf_put(adjusted, name);
    buf_puts(adjusted, "=dropped");
}

/* ---- edits ---- */

static const struct json_member *own(const struct edits *e, enum body_member number)
{
    RM_ASSERT(number < e->n_own);
    return e->found >> number & 1 ? &e->v_members[number] : &e->names[number];
}

static size_t index_of(const struct edits *e, const char *name)
{
    size_t i = 0;
    while (i < e->n_own && strcmp(e->names[i].name, name) != 0)
        i++;
    if (i < e->n_own)
        return i;
    for (i = 0; i < e->n_others && strcmp(e->others[i], name) != 0;)
        i++;
    return e->n_own + i;
}

static bool is_there(const struct json_member *m)
{
    return m->type != JSON_ABSENT && m->type != JSON_NULL;
}

static void want(struct edits *e, const char *name)
{
    if (index_of(e, name) < e->n_own + e->n_others)
        return;
    RM_ASSERT(e->n_others < LINKS_MAX);
    e->others[e->n_others++] = name;
}

/* A second edit of the same member replaces the first. */
static struct json_edit *edit_of(struct edits *e, const struct json_member *m)
{
    for (size_t i = 0; i < e->n; i++)
        if (e->v[i].found == m)
            return &e->v[i];
    RM_ASSERT(e->n < EDITS_MAX);
    struct json_edit *slot = &e->v[e->n++];
    *slot = (struct json_edit){.name = m->name, .found = m};
    return slot;
}

static void put_value(struct edits *e, const struct json_member *m, struct bytes json)
{
    struct json_edit *edit = edit_of(e, m);
    edit->value = json;
    edit->member = (struct bytes){NULL, 0};
    edit->remove = false;
}

/* The same for a member of which all is known: `whole` is what is inserted where it is not there, see json_splice. */
static void put_known(struct edits *e, const struct json_member *m, struct bytes json, struct bytes whole)
{
    struct json_edit *edit = edit_of(e, m);
    edit->value = json;
    edit->member = whole;
    edit->remove = false;
}

/* The member as it goes on so far; p NULL = it does not. */
static struct bytes value_now(const struct edits *e, const struct json_member *m)
{
    for (size_t i = 0; i < e->n; i++)
        if (e->v[i].found == m)
            return e->v[i].remove ? (struct bytes){NULL, 0} : e->v[i].value;
    return m->type == JSON_ABSENT ? (struct bytes){NULL, 0} : json_member_raw(e->text, m);
}

static void take_out(struct edits *e, const struct json_member *m)
{
    edit_of(e, m)->remove = true;
}

static struct bytes number(struct arena *a, int64_t v)
{
    return arena_printf(a, "%lld", (long long)v);
}

static bool is_plain_name(struct bytes name)
{
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] <= 0x20 || name.p[i] >= 0x7f || name.p[i] == '"' || name.p[i] == '\\')
            return false;
    return name.n > 0 && name.n <= 128;
}

static struct bytes quoted(struct arena *a, struct bytes text)
{
    struct buf b = {0};
    struct json_writer w;
    if (is_plain_name(text)) { /* most are */
        char *json = arena_alloc_raw(a, text.n + 2);
        json[0] = json[text.n + 1] = '"';
        memcpy(json + 1, text.p, text.n);
        return bytes_from(json, text.n + 2);
    }
    jw_init(&w, &b);
    jw_string(&w, text);
    struct bytes json = arena_dup(a, buf_bytes(&b));
    buf_fini(&b);
    return json;
}

/* ---- a link's set and drop ---- */

static enum err want_links_members(struct building *b)
{
    const struct profile *p = b->profile;
    if (p->n_set + p->n_drop > LINKS_MAX) {
        *b->why = "the link sets or drops too many members";
        return ERR_LIMIT;
    }
    for (size_t i = 0; i < p->n_set + p->n_drop; i++) {
        struct bytes name = i < p->n_set ? p->set[i].name : p->drop[i - p->n_set];
        if (!is_plain_name(name)) {
            *b->why = "the link sets or drops a member whose name is not plain ASCII";
            return ERR_UNSUPPORTED;
        }
        want(&b->edits, arena_dup(b->arena, name).p);
    }
    return ERR_OK;
}

/* Model and stream are the gateway's own business: whoever sets them would be answered by what was not asked. */
static bool is_ours(struct bytes name)
{
    return bytes_is(name, "model") || bytes_is(name, "stream");
}

static bool is_short_and_safe(struct bytes json)
{
    for (size_t i = 0; i < json.n; i++)
        if (json.p[i] <= 0x20 || json.p[i] >= 0x7f || json.p[i] == ',' || json.p[i] == ';')
            return false;
    return json.n > 0 && json.n <= 64;
}

static const struct json_member *links_member(const struct building *b, struct bytes name)
{
    size_t i = index_of(&b->edits, arena_dup(b->arena, name).p);
    return i < b->edits.n_own ? own(&b->edits, (enum body_member)i) : &b->edits.v_members[i];
}

static void apply_links_members(struct building *b)
{
    const struct profile *p = b->profile;
    for (size_t i = 0; i < p->n_drop; i++) {
        if (is_ours(p->drop[i]))
            continue;
        const struct json_member *m = links_member(b, p->drop[i]);
        if (m->type != JSON_ABSENT)
            adjusted_put_dropped(b->adjusted, p->drop[i]);
        take_out(&b->edits, m);
    }
    for (size_t i = 0; i < p->n_set; i++) {
        if (is_ours(p->set[i].name))
            continue;
        const struct json_member *m = links_member(b, p->set[i].name);
        struct bytes json = p->set[i].json;
        adjusted_put(b->adjusted, m->name, is_short_and_safe(json) ? arena_dup(b->arena, json).p : "set");
        put_value(&b->edits, m, json);
    }
}

/* ---- splices of either dialect ---- */

static void edit_model(struct building *b)
{
    const struct profile *p = b->profile;
    if (!bytes_eq(b->call->model, p->model))
        put_value(&b->edits, own(&b->edits, IN_MODEL),
                  p->model_json.p != NULL ? p->model_json : quoted(b->arena, p->model));
}

static void edit_stream(struct building *b)
{
    bool is_on = own(&b->edits, IN_STREAM)->type == JSON_TRUE;
    if (b->profile->is_stream == is_on)
        return;
    if (b->profile->is_stream)
        put_known(&b->edits, own(&b->edits, IN_STREAM), BYTES("true"), BYTES("\"stream\":true,"));
    else
        put_value(&b->edits, own(&b->edits, IN_STREAM), BYTES("false"));
}

static bool whole_value(struct building *b, const struct json_member *m, int64_t *out)
{
    yyjson_val *v;
    return m->type == JSON_NUMBER &&
           json_tree_parse(json_member_raw(b->edits.text, m), b->max_depth, b->arena, &v) == ERR_OK &&
           json_tree_to_int(v, out);
}

static void clamp_tokens(struct building *b, enum body_member which)
{
    const struct json_member *m = own(&b->edits, which);
    int64_t n, most = b->profile->max_output;
    if (most <= 0 || !whole_value(b, m, &n) || n <= most)
        return;
    put_value(&b->edits, m, number(b->arena, most));
    adjusted_put_int(b->adjusted, m->name, most);
}

/* ---- splices of Chat ---- */

/* The client's stream_options with include_usage true; its other members stay as they are. */
static struct bytes with_usage(struct building *b, struct bytes object)
{
    struct json_member member = {.name = "include_usage"};
    struct json_scan scan;
    struct pieces pieces;
    if (json_scan(object, b->max_depth, &member, 1, &scan) != ERR_OK)
        return BYTES("{\"include_usage\":true}");
    struct json_edit edit = {.name = "include_usage", .found = &member, .value = BYTES("true")};
    json_splice(object, &scan, &edit, 1, b->arena, &pieces);
    char *text = arena_alloc(b->arena, pieces.n_bytes + 1);
    size_t at = 0;
    for (size_t i = 0; i < pieces.n; i++) {
        memcpy(text + at, pieces.v[i].p, pieces.v[i].n);
        at += pieces.v[i].n;
    }
    return bytes_from(text, at);
}

static void edit_stream_options(struct building *b)
{
    const struct json_member *m = own(&b->edits, CHAT_STREAM_OPTIONS);
    bool is_refused = b->profile->quirks & QUIRK_NO_STREAM_OPTIONS;
    bool is_turned_off = b->call->is_stream && !b->profile->is_stream;
    if (is_refused || is_turned_off) {
        if (m->type != JSON_ABSENT)
            take_out(&b->edits, own(&b->edits, CHAT_STREAM_OPTIONS));
        return;
    }
    if (!b->profile->is_stream || !b->profile->adds_usage || b->call->wants_usage)
        return;
    if (m->type == JSON_OBJECT)
        put_value(&b->edits, m, with_usage(b, json_member_raw(b->edits.text, m)));
    else
        put_known(&b->edits, m, BYTES("{\"include_usage\":true}"),
                  BYTES("\"stream_options\":{\"include_usage\":true},"));
}

/* A target has answered that it knows only one of the two names. */
static void rename_tokens(struct building *b, enum body_member from, enum body_member to)
{
    const struct json_member *old = own(&b->edits, from), *other = own(&b->edits, to);
    if (old->type == JSON_ABSENT)
        return;
    take_out(&b->edits, old);
    int64_t n, most = b->profile->max_output;
    if (is_there(other) || !whole_value(b, old, &n)) {
        adjusted_put_dropped(b->adjusted, bytes_of(old->name));
        return;
    }
    bool is_clamped = most > 0 && n > most;
    put_value(&b->edits, other, is_clamped ? number(b->arena, most) : json_member_raw(b->edits.text, old));
    adjusted_put_int(b->adjusted, other->name, is_clamped ? most : n);
}

static void edit_tokens(struct building *b)
{
    if (b->profile->max_output <= 0 && !(b->profile->quirks & (QUIRK_MAX_COMPLETION_TOKENS | QUIRK_MAX_TOKENS)))
        return;
    bool wants_new = b->profile->quirks & QUIRK_MAX_COMPLETION_TOKENS;
    bool wants_old = !wants_new && b->profile->quirks & QUIRK_MAX_TOKENS;
    if (!wants_old)
        clamp_tokens(b, CHAT_MAX_COMPLETION_TOKENS);
    if (!wants_new)
        clamp_tokens(b, IN_MAX_TOKENS);
    if (wants_new)
        rename_tokens(b, IN_MAX_TOKENS, CHAT_MAX_COMPLETION_TOKENS);
    if (wants_old)
        rename_tokens(b, CHAT_MAX_COMPLETION_TOKENS, IN_MAX_TOKENS);
}

/* Newer models say it by prompt_cache_options: a client who does so has decided. */
static void edit_retention(struct building *b)
{
    const struct profile *p = b->profile;
    if (p->cache_ttl_s <= 0 || !p->takes_retention)
        return;
    if (!is_there(own(&b->edits, CHAT_PROMPT_CACHE_RETENTION)) &&
        !is_there(own(&b->edits, CHAT_PROMPT_CACHE_OPTIONS))) {
        put_value(&b->edits, own(&b->edits, CHAT_PROMPT_CACHE_RETENTION), BYTES("\"24h\""));
        adjusted_put(b->adjusted, "prompt_cache_retention", "24h");
    }
    if (p->cache_key.n > 0 && !is_there(own(&b->edits, CHAT_PROMPT_CACHE_KEY))) {
        put_value(&b->edits, own(&b->edits, CHAT_PROMPT_CACHE_KEY), quoted(b->arena, p->cache_key));
        adjusted_put(b->adjusted, "prompt_cache_key", "set");
    }
}

static enum err edit_openai(struct building *b)
{
    edit_model(b);
    edit_stream(b);
    edit_stream_options(b);
    edit_tokens(b);
    edit_retention(b);
    return ERR_OK;
}

/* ---- splices of Messages ---- */

static bool is_own_thinking(struct bytes part)
{
    struct bytes signature = walk_get(part, "signature");
    return raw_is(walk_get(part, "type"), "thinking") && bytes_starts_with(signature, BYTES("\"" OWN_MARK));
}

/* Items of an array without those that hold thinking of our own mark, as a new array; how many stayed. */
static size_t keep_parts(struct bytes content, struct buf *out)
{
    size_t n = 0;
    struct walk w = walk_of(content);
    buf_putc(out, '[');
    while (walk_next(&w)) {
        if (is_own_thinking(w.value))
            continue;
        if (n++ > 0)
            buf_putc(out, ',');
        buf_put(out, w.value);
    }
    buf_putc(out, ']');
    return n;
}

static bool has_own_thinking(struct bytes content)
{
    struct walk w = walk_of(content);
    while (walk_next(&w))
        if (is_own_thinking(w.value))
            return true;
    return false;
}

/* The message as it goes on; false when nothing of it is left. */
static bool put_message(struct bytes message, bool is_first, struct buf *out)
{
    struct bytes content = walk_get(message, "content");
    struct buf kept = {0};
    bool is_touched = content.p != NULL && has_own_thinking(content);
    bool is_left = !is_touched || keep_parts(content, &kept) > 0;
    if (is_left && !is_first)
        buf_putc(out, ',');
    if (is_left && is_touched) {
        size_t at = (size_t)(content.p - message.p);
        buf_put(out, bytes_slice(message, 0, at));
        buf_put(out, buf_bytes(&kept));
        buf_put(out, bytes_slice(message, at + content.n, message.n));
    } else if (is_left) {
        buf_put(out, message);
    }
    buf_fini(&kept);
    return is_left;
}

/* Reasoning that another provider's answer brought into the conversation is refused by Anthropic: its signature is
 * ours. */
static void strip_own_thinking(struct building *b)
{
    const struct json_member *m = own(&b->edits, IN_MESSAGES);
    struct bytes messages = value_now(&b->edits, m);
    if (m->type != JSON_ARRAY || memmem(messages.p, messages.n, "\"" OWN_MARK, sizeof OWN_MARK) == NULL)
        return;
    struct buf out = {0};
    bool is_first = true;
    struct walk w = walk_of(messages);
    buf_putc(&out, '[');
    while (walk_next(&w))
        if (put_message(w.value, is_first, &out))
            is_first = false;
    buf_putc(&out, ']');
    struct bytes text = arena_dup(b->arena, buf_bytes(&out));
    buf_fini(&out);
    if (bytes_eq(text, messages))
        return;
    put_value(&b->edits, own(&b->edits, IN_MESSAGES), text);
    adjusted_put(b->adjusted, "thinking", "stripped");
}

/* On a failover whose cache write would not pay: the client's own markers go too. */
static void withhold_cache(struct building *b)
{
    static const unsigned char holders[] = {IN_TOOLS, MESSAGES_SYSTEM, IN_MESSAGES};
    bool is_any = b->profile->cache_ttl_s > 0 || is_there(own(&b->edits, IN_CACHE_CONTROL));
    struct buf plain = {0};
    take_out(&b->edits, own(&b->edits, IN_CACHE_CONTROL));
    for (size_t i = 0; i < RM_COUNTOF(holders) && b->call->has_cache_markers; i++) {
        const struct json_member *m = own(&b->edits, holders[i]);
        if (!is_there(m) || !markers_cut(json_member_raw(b->edits.text, m), &plain))
            continue;
        put_value(&b->edits, m, arena_dup(b->arena, buf_bytes(&plain)));
        buf_clear(&plain);
        is_any = true;
    }
    buf_fini(&plain);
    if (is_any)
        adjusted_put(b->adjusted, "cache_control", "withheld");
}

static void edit_cache_control(struct building *b)
{
    if (b->profile->withholds_cache) {
        withhold_cache(b);
        return;
    }
    int64_t ttl = b->profile->cache_ttl_s;
    if (ttl <= 0 || b->call->has_cache_markers)
        return;
    put_value(&b->edits, own(&b->edits, IN_CACHE_CONTROL),
              ttl <= 300 ? BYTES("{\"type\":\"ephemeral\"}") : BYTES("{\"type\":\"ephemeral\",\"ttl\":\"1h\"}"));
    adjusted_put(b->adjusted, "cache_control", ttl <= 300 ? "5m" : "1h");
}

static enum err edit_anthropic(struct building *b)
{
    const struct json_member *thinking = own(&b->edits, MESSAGES_THINKING);
    int64_t most = b->profile->max_output, budget;
    edit_model(b);
    edit_stream(b);
    clamp_tokens(b, IN_MAX_TOKENS);
    if (most > 0 && thinking->type == JSON_OBJECT &&
        bytes_to_i64(walk_get(json_member_raw(b->edits.text, thinking), "budget_tokens"), &budget) && budget >= most) {
        *b->why = "the thinking budget exceeds what the model can give";
        return ERR_UNSUPPORTED;
    }
    edit_cache_control(b);
    strip_own_thinking(b);
    return ERR_OK;
}

/* ---- both ways ---- */

/* The reading of the call has found all that is wanted now, in this very text: no second scan. (A link may set or drop
 * members that nobody else asks for.) */
static bool is_known(const struct call_members *all, const struct building *b, struct bytes text)
{
    const struct edits *e = &b->edits;
    return all != NULL && all->body.p == text.p && all->body.n == text.n && all->max_depth <= b->max_depth &&
           all->n == e->n_own && e->n_others == 0;
}

static enum err scan_for_edits(struct building *b, struct bytes text)
{
    struct edits *e = &b->edits;
    size_t n = e->n_own + e->n_others;
    e->text = text;
    if (is_known(b->call->members, b, text)) {
        e->v_members = b->call->members->v;
        e->found = b->call->members->found;
        e->scan = b->call->members->scan;
        return ERR_OK;
    }
    for (size_t i = 0; i < n; i++)
        e->members[i] = (struct json_member){.name = i < e->n_own ? e->names[i].name : e->others[i - e->n_own]};
    e->v_members = e->members;
    e->found = UINT32_MAX;
    enum err err = json_scan(text, b->max_depth, e->members, n, &e->scan);
    if (err == ERR_OK)
        return ERR_OK;
    const char *what = e->scan.error != NULL ? e->scan.error : err_text(err);
    *b->why = arena_printf(b->arena, "the body cannot be edited: %s, at byte %zu", what, e->scan.error_at).p;
    return err;
}

static enum err splice_body(struct building *b, bool is_chat, struct bytes body, struct pieces *out)
{
    b->edits.names = is_chat ? chat_members : messages_members;
    b->edits.n_own = is_chat ? CHAT_MEMBERS : MESSAGES_MEMBERS;
    bool has_links = b->profile->n_set + b->profile->n_drop > 0;
    enum err e = has_links ? want_links_members(b) : ERR_OK;
    if (e == ERR_OK)
        e = scan_for_edits(b, body);
    if (e == ERR_OK)
        e = is_chat ? edit_openai(b) : edit_anthropic(b);
    if (e != ERR_OK)
        return e;
    if (has_links)
        apply_links_members(b);
    json_splice(body, &b->edits.scan, b->edits.v, b->edits.n, b->arena, out);
    return ERR_OK;
}

static enum err refuse_untranslatable(struct building *b)
{
    if (b->call->n > 1)
        *b->why = "n > 1 cannot be asked in another dialect";
    else if (b->call->has_audio)
        *b->why = "audio output cannot be asked in another dialect";
    else if (b->call->state.n > 0)
        *b->why = arena_printf(b->arena, "%.*s leans on state that a provider has stored", (int)b->call->state.n,
                               b->call->state.p)
                      .p;
    else
        return ERR_OK;
    return ERR_UNSUPPORTED;
}

static enum err translate_body(struct building *b, const struct dialect *client, const struct dialect *target,
                               struct bytes body, struct pieces *out)
{
    struct request *r = ARENA_NEW(b->arena, struct request);
    struct buf text = {0};
    enum err e = refuse_untranslatable(b);
    if (e == ERR_OK)
        e = client->parse(body, b->max_depth, b->arena, r, b->why);
    if (e == ERR_OK)
        e = target->render(r, b->profile, b->arena, &text, b->adjusted, b->why);
    struct bytes rendered = e == ERR_OK ? arena_dup(b->arena, buf_bytes(&text)) : (struct bytes){NULL, 0};
    buf_fini(&text);
    if (e == ERR_OK)
        e = want_links_members(b);
    if (e != ERR_OK)
        return e;
    b->max_depth += 8; /* the new body may wrap the client's values in a few levels more */
    e = scan_for_edits(b, rendered);
    if (e != ERR_OK)
        return e;
    apply_links_members(b);
    json_splice(rendered, &b->edits.scan, b->edits.v, b->edits.n, b->arena, out);
    return ERR_OK;
}

enum err dialect_build_body(const struct dialect *client, const struct dialect *target, struct bytes body,
                            const struct call *call, const struct profile *p, unsigned max_depth, struct arena *a,
                            struct pieces *out, struct buf *adjusted, const char **why)
{
    struct building b;
    memset(&b, 0, offsetof(struct building, edits.others)); /* the tables after it are large and mostly unused */
    b.call = call;
    b.profile = p;
    b.max_depth = max_depth;
    b.arena = a;
    b.adjusted = adjusted;
    b.why = why;
    if (client == target)
        return splice_body(&b, target->kind == DIALECT_OPENAI, body, out);
    return translate_body(&b, client, target, body, out);
}
