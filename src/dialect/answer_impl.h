/* The answer side of each dialect, as the registry needs it. */
#ifndef RM_DIALECT_ANSWER_IMPL_H
#define RM_DIALECT_ANSWER_IMPL_H

#include "dialect/collect.h"
#include "dialect/decode.h"
#include "dialect/encode.h"

extern const struct decoder_ops openai_decoder, anthropic_decoder;
extern const struct encoder_ops openai_encoder, anthropic_encoder;
extern const struct collector_ops openai_collector, anthropic_collector;

/* struct dialect.classify: a provider's error answer -> failure. See dialect_classify. */
void openai_classify(struct bytes vendor, unsigned status, const struct fields *fields, struct bytes body,
                     int64_t wall_ms, struct failure *out);
void anthropic_classify(struct bytes vendor, unsigned status, const struct fields *fields, struct bytes body,
                        int64_t wall_ms, struct failure *out);

#endif
