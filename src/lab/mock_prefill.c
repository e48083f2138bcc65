#include "lab/mock_prefill.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The next word of *rest, which moves behind it; n 0 at the end. */
static struct bytes next_word(struct bytes *rest)
{
    size_t from = 0, to;
    while (from < rest->n && is_blank(rest->p[from]))
        from++;
    for (to = from; to < rest->n && !is_blank(rest->p[to]);)
        to++;
    struct bytes word = bytes_slice(*rest, from, to);
    *rest = bytes_slice(*rest, to, rest->n);
    return word;
}

/* The next word of a text that begins anew at its end. */
static struct bytes next_of_text(const char *words, struct bytes *rest)
{
    struct bytes word = next_word(rest);
    if (word.n > 0)
        return word;
    *rest = bytes_of(words);
    return next_word(rest);
}

bool prefill_fits(const char *words, int64_t n_words, struct bytes said, struct arena *arena, struct prefill_fit *out)
{
    struct bytes text = bytes_of(words), rest = said, of_text = {0}, word;
    bool ends_blank = said.n > 0 && is_blank(said.p[said.n - 1]), is_part = false;
    *out = (struct prefill_fit){0};
    while ((word = next_word(&rest)).n > 0) {
        of_text = next_of_text(words, &text);
        if (is_part || out->first_word == n_words || !bytes_starts_with(of_text, word))
            return false;
        is_part = word.n < of_text.n;
        if (!is_part)
            out->first_word++;
        else
            out->first_text = arena_dup(arena, bytes_slice(of_text, word.n, of_text.n));
    }
    if (is_part)
        return !ends_blank;
    if (ends_blank && out->first_word > 0 && out->first_word < n_words)
        out->first_text = arena_dup(arena, next_of_text(words, &text));
    return true;
}
