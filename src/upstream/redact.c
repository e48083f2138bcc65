/* Two passes, each only ever shortens or keeps the text, so that it is done in place: "[key]" stands for words of at
 * least KEY_BYTES_MIN bytes. */
#include "upstream/redact.h"

#include "base/check.h"

enum { KEY_BYTES_MIN = 8 };
static const char mask[] = "[key]";
enum { MASK_BYTES = sizeof mask - 1 };

static bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '*' || c == '.';
}

static void replace(char *text, size_t at, size_t n)
{
    size_t end = strlen(text);
    memcpy(text + at, mask, MASK_BYTES);
    memmove(text + at + MASK_BYTES, text + at + n, end - at - n + 1);
}

static void mask_key(char *text, struct bytes key)
{
    if (key.n < KEY_BYTES_MIN)
        return;
    for (size_t at = 0; (at = bytes_find(bytes_of(text), key)) != SIZE_MAX;)
        replace(text, at, key.n);
    /* The text may have been cut in the middle of the key. */
    size_t n = strlen(text);
    for (size_t part = n < key.n ? n : key.n - 1; part >= KEY_BYTES_MIN; part--)
        if (memcmp(text + n - part, key.p, part) == 0) {
            replace(text, n - part, part);
            return;
        }
}

/* Length of the key-like word that begins here, or 0. */
static size_t key_like(const char *p)
{
    static const char *const prefixes[] = {"sk-", "sk_", "gsk_", "xai-", "AIza", "hf_", "r8_", "nvapi-", "pplx-"};
    for (size_t i = 0; i < RM_COUNTOF(prefixes); i++) {
        size_t n = strlen(prefixes[i]);
        if (strncmp(p, prefixes[i], n) != 0)
            continue;
        size_t end = n;
        while (is_word_byte(p[end]))
            end++;
        while (end > n && p[end - 1] == '.')
            end--;
        return end >= n + KEY_BYTES_MIN ? end : 0;
    }
    return 0;
}

void redact_text(char *text, struct bytes key)
{
    mask_key(text, key);
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (i > 0 && is_word_byte(text[i - 1]))
            continue;
        size_t n = key_like(text + i);
        if (n > 0)
            replace(text, i, n);
    }
}

void redact_failure(struct failure *f, struct bytes key)
{
    redact_text(f->message, key);
    redact_text(f->type, key);
    redact_text(f->code, key);
    redact_text(f->param, key);
}
