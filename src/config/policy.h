/* What a route does about failures, slowness and caches, as its maps say. Part of config.h, which includes it. */
#ifndef RM_CONFIG_POLICY_H
#define RM_CONFIG_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct breaker_conf {
    bool is_off;
    uint32_t failures, ratio_permille, ratio_min, window_ms, cooldown_ms, cooldown_max_ms;
};

/* `ttft_auto`: budgets that set themselves. */
enum auto_percentile { AUTO_P90, AUTO_P95, AUTO_P98, AUTO_P99, AUTO_P995, AUTO_P999, AUTO_PERCENTILE_N };
struct auto_conf {
    uint32_t percentile; /* enum auto_percentile */
    uint32_t min_ms, max_ms, fallback_ms, min_samples;
    bool is_shadow; /* ttft_budget_mode: it cuts nothing */
};
static inline unsigned auto_permille(unsigned percentile)
{
    static const unsigned short permille[AUTO_PERCENTILE_N] = {900, 950, 980, 990, 995, 999};
    return permille[percentile];
}

struct hedge_conf {
    bool is_on;
    uint32_t after_ms; /* 0 = p95 of the target's own */
    uint32_t max_extra_permyriad, max_per_minute;
};

/* What is done about the prompt caches of providers. */
enum cache_standby { STANDBY_NEVER, STANDBY_EXPECTED_VALUE, STANDBY_SUSTAINED, STANDBY_ALWAYS };
enum cache_return { RETURN_AT_ONCE, RETURN_BY_VALUE };
struct cache_conf {
    uint32_t standby; /* enum cache_standby */
    uint32_t sustained_after_ms;
    uint32_t goes_back; /* enum cache_return */
    uint32_t affinity;  /* of a conversation to one of equal links: 0 = off */
};

#endif
