/* From a complaint to a class: the tables that all dialects share (failover semantics 2 "any" and 3), and what makes a
 * struct failure of the outcome. The order is always: the provider's own row, then code and type, then the text, then
 * the status. */
#ifndef RM_DIALECT_CLASSIFY_H
#define RM_DIALECT_CLASSIFY_H

#include "base/fields.h"
#include "dialect/complaint.h"
#include "model/failure.h"

/* A dialect's judgement. status 0 = none is known (an error inside a 200). fields may be NULL. */
typedef enum failure_class classify_judge(struct bytes vendor, unsigned status, const struct fields *fields,
                                          const struct complaint *c);
classify_judge openai_class_of, anthropic_class_of;

struct class_row {
    const char *word;
    enum failure_class class;
};

/* The first row whose word is the complaint's code, type or detail. FAILURE_NONE = none is. */
enum failure_class classify_by_rows(const struct class_row *rows, size_t n, const struct complaint *c);
/* FAILURE_NONE = the text says nothing. */
enum failure_class classify_by_text(unsigned status, const struct complaint *c);
/* Failover semantics 3. Status 0 -> FAULT. */
enum failure_class classify_by_status(unsigned status, const struct fields *fields, const struct complaint *c);
/* enum quirk that would cure a refusal of the parameter that the complaint names, or 0. */
unsigned classify_quirk(const struct complaint *c);
/* The complaint refuses a parameter or a value as unknown to this model (not as wrong). */
bool classify_is_refused_parameter(const struct complaint *c);

/* Complaint and class -> failure, without a hint: words, bounded and masked message, quirk, outcome. */
void classify_fill(const struct complaint *c, enum failure_class class, unsigned status, struct failure *out);
/* An error inside a 200. Status: what the complaint itself tells, else 0. Hints from its own words. */
void classify_in_stream(const struct complaint *c, classify_judge *judge, struct bytes vendor, struct failure *out);
/* An HTTP error answer, with hints. */
void classify_http(classify_judge *judge, struct bytes vendor, unsigned status, const struct fields *fields,
                   struct bytes body, int64_t wall_ms, struct failure *out);

#endif
