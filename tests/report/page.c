/* report_page: JSON from standard input, the page to standard output. What the browser tests use to see pages of
 * results that no bench would give. */
#include "base/check.h"
#include "lab/report.h"

#include <stdio.h>

int main(void)
{
    struct buf json = {0}, page = {0};
    char part[4096];
    size_t n;
    while ((n = fread(part, 1, sizeof part, stdin)) > 0)
        buf_put(&json, bytes_from(part, n));
    report_html(buf_bytes(&json), &page);
    bool is_written = fwrite(page.p, 1, page.n, stdout) == page.n && fflush(stdout) == 0;
    buf_fini(&json);
    buf_fini(&page);
    return is_written ? 0 : 1;
}
