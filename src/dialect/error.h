/* What encode.h leaves open of errors: the status that goes with a dialect. */
#ifndef RM_DIALECT_ERROR_H
#define RM_DIALECT_ERROR_H

#include "dialect/encode.h"

/* HTTP status of an error answer in the client's dialect: overload is 503 in Chat and 529 in Messages. */
unsigned error_status(const struct dialect *client, const struct answer_error *e);

#endif
