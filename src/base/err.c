#include "base/err.h"

const char *err_text(enum err e)
{
    static const char *const texts[ERR_N] = {
#define ERR(name, text) text,
#include "base/err.def"
#undef ERR
    };
    RM_ASSERT((unsigned)e < ERR_N);
    return texts[e];
}
