/* The same conversation prefers the same target among equals, so that it finds its prompt cache there. Rendezvous
 * hashing: every target draws a number for the conversation, the highest is first. No table, and when a target comes or
 * goes only its own conversations move. It orders what may be asked; health has the last word, and a conversation whose
 * target is closed goes to its own second. Pure. */
#ifndef RM_PLAN_AFFINITY_H
#define RM_PLAN_AFFINITY_H

#include "config/config.h"
#include "model/call.h"

/* Whose conversation: the call's prompt_cache_key, else session_id (x-session-id; p NULL = none), else what its turns
 * have in common, else its prefix. 0 = nothing to go by. */
uint64_t affinity_key(const struct call *call, struct bytes session_id);
/* Orders each run of equal links (link_conf.equals) by what they draw for the key; the runs stay where they are. Key 0:
 * nothing happens. The same on every core, machine and restart. */
void affinity_order(uint64_t key, const struct link_conf **links, size_t n_links);

#endif
