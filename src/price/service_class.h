/* Classes of service: what a provider calls them in requests and reports -> the words that price books have for them.
 * Everything but the words that are listed stands for itself. Pure. */
#ifndef RM_PRICE_SERVICE_CLASS_H
#define RM_PRICE_SERVICE_CLASS_H

#include "base/bytes.h"
#include "model/record.h"

/* "default", "standard", "standard_only", "on_demand" -> "standard"; "batch" -> "batches"; "auto", which lets the
 * provider choose, -> "". */
struct bytes service_class_of(struct bytes word);
/* The same into an array; what is too long for it, or is no word of A-Z a-z 0-9 _ . - : "other". "" = not told. */
void service_class_read(struct bytes word, char out[SERVICE_BYTES]);

#endif
