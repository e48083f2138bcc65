/* GET /v1/models: the routes, as either dialect lists models. Pure. */
#ifndef RM_FRONT_MODELS_H
#define RM_FRONT_MODELS_H

#include "config/config.h"

void models_openai(const struct config *c, struct buf *out);
void models_anthropic(const struct config *c, struct buf *out);
/* The route whose name is nearest to one that does not exist; NULL when none is near enough to be a slip. */
const char *models_nearest(const struct config *c, struct bytes asked);

#endif
