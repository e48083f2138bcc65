#include "config/substitute.h"

struct job {
    const struct config_known *known;
    struct arena *arena;
    struct fault_log *log;
    struct node *node;
    struct buf out;
};

static bool is_variable_name(struct bytes name)
{
    if (name.n == 0 || name.n > NAME_BYTES_MAX * 2)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool is_letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
        if (!is_letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return true;
}

/* NAME, NAME:- or NAME:-text. The fault names the variable, never what another one holds. */
static void put_variable(struct job *j, struct bytes inside)
{
    size_t split = bytes_find(inside, BYTES(":-"));
    bool has_other = split != SIZE_MAX;
    struct bytes name = has_other ? bytes_slice(inside, 0, split) : inside;
    struct bytes other = has_other ? bytes_slice(inside, split + 2, inside.n) : (struct bytes){0};
    if (!is_variable_name(name)) {
        j->node->is_faulty = true;
        fault_error(j->log, place_of(j->node),
                    "\"${...}\" does not hold the name of a variable; write $$ for a dollar");
        return;
    }
    const char *cname = arena_dup(j->arena, name).p;
    const char *value = j->known->getenv == NULL ? NULL : j->known->getenv(cname, j->known->arg);
    if (value != NULL && (value[0] != '\0' || !has_other)) {
        buf_puts(&j->out, value);
        return;
    }
    j->node->is_faulty |= !has_other;
    if (!has_other)
        fault_error(j->log, place_of(j->node),
                    "the environment variable %s is not set; write ${%s:-} where it may be left out", cname, cname);
    else if (other.n == 0)
        j->node->off_variable = cname;
    buf_put(&j->out, other);
}

static void replace(struct job *j)
{
    struct bytes in = j->node->raw;
    for (size_t at = 0; at < in.n;) {
        if (in.p[at] != '$' || at + 1 == in.n || (in.p[at + 1] != '$' && in.p[at + 1] != '{')) {
            buf_putc(&j->out, in.p[at++]);
            continue;
        }
        if (in.p[at + 1] == '$') {
            buf_putc(&j->out, '$');
            at += 2;
            continue;
        }
        struct bytes rest = bytes_slice(in, at + 2, in.n);
        size_t end = bytes_find_byte(rest, '}');
        if (end == SIZE_MAX) {
            j->node->is_faulty = true;
            fault_error(j->log, place_of(j->node), "\"${\" without its \"}\"; write $$ for a dollar");
            return;
        }
        put_variable(j, bytes_slice(rest, 0, end));
        at += 2 + end + 1;
    }
}

void substitute(struct node *n, const struct config_known *known, struct arena *a, struct fault_log *log)
{
    NODE_EACH(n, item)
    substitute(item, known, a, log);
    if (n->kind != NODE_SCALAR || bytes_find_byte(n->raw, '$') == SIZE_MAX)
        return;
    struct job j = {known, a, log, n, {0}};
    replace(&j);
    n->text = arena_dup(a, buf_bytes(&j.out));
    if (j.out.n > 0)
        explicit_bzero(j.out.p, j.out.n);
    buf_fini(&j.out);
}
