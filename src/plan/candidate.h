/* Who may be tried: what can be said of a link before it is asked, health aside. Pure. */
#ifndef RM_PLAN_CANDIDATE_H
#define RM_PLAN_CANDIDATE_H

#include "config/config.h"
#include "model/call.h"

struct candidate {
    enum outcome skip; /* OUTCOME_OK = may be tried; else skipped_off, skipped_incapable, skipped_state */
    const char *why;   /* static text; "" = may be tried */
    bool is_window;    /* incapable only because the prompt does not fit */
};

/* `first`: the chain's first link, whose provider is the only one for a call that leans on stored state. */
struct candidate candidate_of(const struct call *call, const struct link_conf *link, const struct link_conf *first,
                              bool is_same_dialect);
/* Is the upstream asked for a stream (DESIGN 3.2)? */
bool candidate_is_stream(const struct call *call, const struct route_conf *route, const struct link_conf *link);
/* Input tokens: ceil(prompt bytes / 4). */
int64_t candidate_prompt_tokens(const struct call *call);
/* After `failed` said context_length: is the other link's window known to be larger / known not to be? */
bool candidate_is_larger(const struct link_conf *failed, const struct link_conf *other);
bool candidate_is_not_larger(const struct link_conf *failed, const struct link_conf *other);

#endif
