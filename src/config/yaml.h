/* libfyaml, in memory only while a file is read: 480 KB that a running gateway has no use for. Not linked, therefore,
 * but opened by name and closed again; why: docs/decisions/0006. */
#ifndef RM_CONFIG_YAML_H
#define RM_CONFIG_YAML_H

#include "base/check.h"

#include <libfyaml.h>

/* Every function of libfyaml that we call, without its `fy_`. */
#define YAML_FUNCTIONS(X)      \
    X(diag_create)             \
    X(diag_destroy)            \
    X(diag_errors_iterate)     \
    X(diag_set_collect_errors) \
    X(parser_create)           \
    X(parser_destroy)          \
    X(parser_event_free)       \
    X(parser_parse)            \
    X(parser_set_string)       \
    X(token_get_text)          \
    X(token_scalar_style)      \
    X(token_start_mark)

/* The compiler holds each call against the library's own header. */
struct yaml {
    void *library;
#define X(name) __typeof__(&fy_##name) name;
    YAML_FUNCTIONS(X)
#undef X
};

/* NULL, or why the library cannot be used: one line, good until the next call. Then there is nothing to close. */
RM_MUST_USE const char *yaml_open(struct yaml *y);
/* What the library has allocated must be freed by now. */
void yaml_close(struct yaml *y);

#endif
