/* Operating errors: rows in err.def. A function that can fail returns enum err (ERR_OK is 0) and must be checked. */
#ifndef RM_BASE_ERR_H
#define RM_BASE_ERR_H

#include "base/check.h"

enum err {
#define ERR(name, text) ERR_##name,
#include "base/err.def"
#undef ERR
    ERR_N
};

const char *err_text(enum err e);

#endif
