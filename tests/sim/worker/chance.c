#include "stories.h"
bool chance_run(uint64_t seed, bool is_loud)
{
    (void)seed;
    (void)is_loud;
    return true;
}
