#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put(const char *s)
{
    ssize_t ignored = write(2, s, strlen(s));
    (void)ignored;
}

void check_failed(const char *file, int line, const char *what)
{
    char digits[16];
    int at = (int)sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + line % 10);
        line /= 10;
    } while (line > 0 && at > 0);
    put(file);
    put(":");
    put(&digits[at]);
    put(": assertion failed: ");
    put(what);
    put("\n");
    abort();
}
