/* Runs a fuzz target over the files of a folder, without libFuzzer: the corpus as a plain test. */
#include "fuzz.h"

#include "base/buf.h"

#include <dirent.h>
#include <stdio.h>

static void run_file(const char *folder, const char *name)
{
    struct buf path = {0}, content = {0};
    buf_printf(&path, "%s/%s", folder, name);
    FILE *f = fopen(buf_cstr(&path), "rb");
    RM_ASSERT(f != NULL);
    size_t n;
    do {
        n = fread(buf_reserve(&content, 4096), 1, 4096, f);
        buf_grew(&content, n);
    } while (n > 0);
    fclose(f);
    printf("%s (%zu bytes)\n", name, content.n);
    fflush(stdout);
    LLVMFuzzerTestOneInput((const uint8_t *)content.p, content.n);
    buf_fini(&content);
    buf_fini(&path);
}

int main(int argc, char **argv)
{
    RM_ASSERT(argc == 2);
    DIR *d = opendir(argv[1]);
    RM_ASSERT(d != NULL);
    size_t n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        run_file(argv[1], e->d_name);
        n++;
    }
    closedir(d);
    RM_ASSERT(n > 0);
    return 0;
}
