#include "model/event.h"

#include "base/check.h"

const char *event_kind_name(enum event_kind k)
{
    static const char *const names[] = {"start",      "text",      "reasoning", "signature", "redacted", "refusal",
                                        "tool_start", "tool_args", "citation",  "audio",     "finish",   "usage",
                                        "error",      "done",      "ping",      "other"};
    RM_ASSERT((unsigned)k < RM_COUNTOF(names));
    return names[k];
}
