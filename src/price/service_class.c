#include "price/service_class.h"

#include "base/check.h"

#include <string.h>

struct bytes service_class_of(struct bytes word)
{
    static const struct {
        const char *theirs, *ours;
    } rows[] = {
        {"default", "standard"},   {"standard", "standard"}, {"standard_only", "standard"},
        {"on_demand", "standard"}, {"batch", "batches"},     {"auto", ""},
    };
    for (size_t i = 0; i < RM_COUNTOF(rows); i++)
        if (bytes_is(word, rows[i].theirs))
            return bytes_of(rows[i].ours);
    return word;
}

static bool is_word(struct bytes b)
{
    for (size_t i = 0; i < b.n; i++) {
        char c = b.p[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_letter && c != '_' && c != '.' && c != '-')
            return false;
    }
    return b.n < SERVICE_BYTES;
}

void service_class_read(struct bytes word, char out[SERVICE_BYTES])
{
    struct bytes b = service_class_of(word);
    if (!is_word(b))
        b = BYTES("other");
    if (b.n > 0)
        memcpy(out, b.p, b.n);
    out[b.n] = '\0';
}
