/* The state file is the gateway's own (serve/keep.h). It is written every minute or so and replaced whole, so that it
 * may be read beside a running gateway; what is told is as of then. */
#include "cmd/ledger.h"
#include "cmd/load.h"
#include "serve/keep.h"

#include <stdio.h>

enum { STATE_BYTES_MAX = 64 << 20 };

static void add(struct bytes line, enum ratio_side side, const char *word, struct arena *arena, struct estimate *v,
                size_t *n)
{
    struct ratio_report r;
    struct bytes name;
    if (!ratio_line_report(line, side, &name, &r) || r.n_samples == 0)
        return;
    struct bytes model = name, provider = bytes_cut(&model, ' ');
    (void)bytes_cut(&model, ' '); /* the host */
    v[(*n)++] = (struct estimate){.provider = arena_dup(arena, provider).p,
                                  .model = arena_dup(arena, model).p,
                                  .side = word,
                                  .n_samples = (int64_t)r.n_samples,
                                  .is_known = r.is_known,
                                  .milli_bytes = (int64_t)r.milli_bytes,
                                  .error_permille = r.error_permille};
}

void ledger_estimates(const char *ledger_path, struct arena *arena, struct estimates *out)
{
    struct buf text = {.max = STATE_BYTES_MAX};
    struct bytes lines;
    size_t n = 0;
    const char *path = arena_printf(arena, "%s.state", ledger_path).p;
    *out = (struct estimates){0};
    if (load_bytes(path, &text) && keep_lines(buf_bytes(&text), &lines, &out->as_of_ms)) {
        struct estimate *v = ARENA_ARRAY(arena, struct estimate, (size_t)2 * REGISTRY_TARGETS_MAX);
        while (lines.n > 0 && n + 2 <= (size_t)2 * REGISTRY_TARGETS_MAX) {
            struct bytes line = bytes_cut(&lines, '\n');
            add(line, RATIO_PROMPT, "prompt", arena, v, &n);
            add(line, RATIO_OUTPUT, "output", arena, v, &n);
        }
        out->v = v;
        out->n = n;
    }
    buf_fini(&text);
}
