/* `ringmain mock -c FILE`: pretend providers as YAML (docs/mock.md). Every fault of a file is told at once, with line,
 * column and the nearest known name. Pure. */
#ifndef RM_LAB_MOCK_YAML_H
#define RM_LAB_MOCK_YAML_H

#include "base/buf.h"
#include "lab/mock_conf.h"

struct mock_file {
    struct mock_conf *v; /* in the arena, as are its texts; seed and fb_speed are in each */
    size_t n;
};

enum { MOCK_PROVIDERS_MAX = 64 };

/* `path` stands in the messages, and paths of the file are relative to its folder. False: *told has a line for each
 * fault, "FILE:line:column: error: …". */
bool mock_yaml_parse(struct bytes text, const char *path, struct arena *arena, struct mock_file *out,
                     struct buf *told) RM_MUST_USE;

#endif
