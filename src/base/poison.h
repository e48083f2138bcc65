/* Tells AddressSanitizer which pooled memory may not be touched. Nothing without it. */
#ifndef RM_BASE_POISON_H
#define RM_BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define RM_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RM_HAS_ASAN 1
#endif
#endif

#ifdef RM_HAS_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#endif
