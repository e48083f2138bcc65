/* What the two scans share. Private to the room. */
#ifndef RM_CODEC_JSON_SCAN_IMPL_H
#define RM_CODEC_JSON_SCAN_IMPL_H

#include "codec/json_scan.h"

enum { JSON_DEPTH_CAP = 4096 };

/* json_scan byte by byte: it says what is wrong and where, and it is what the other one is held against. */
enum err json_scan_scalar(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                          struct json_scan *scan) RM_MUST_USE;
/* json_scan in blocks of 64 bytes; the members come as JSON_ABSENT. True: accepted, with what json_scan_scalar would
 * have said, and with the index (NULL: none is wanted). False: there is something that json_scan_scalar must look at,
 * most likely a fault; nothing that was written counts. */
bool json_scan_block(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                     struct json_scan *scan, struct json_index *index) RM_MUST_USE;

/* json_scan_string in blocks. */
bool json_block_string(struct bytes text, size_t at, size_t *n, uint32_t *less) RM_MUST_USE;

/* The same by AVX2: to be called by the above, where json_can_wide says so. */
bool json_scan_wide(struct bytes text, unsigned max_depth, struct json_member *members, size_t n,
                    struct json_scan *scan, struct json_index *index) RM_MUST_USE;
bool json_wide_string(struct bytes text, size_t at, size_t *n, uint32_t *less) RM_MUST_USE;

#if defined(__x86_64__) && !defined(RM_BLOCK_PORTABLE) && !defined(RM_BLOCK_NARROW)
#define RM_HAS_WIDE
/* This machine has what json_block_wide.c is compiled for. */
static inline bool json_can_wide(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
}
#endif

static inline enum json_type json_type_of(unsigned char first)
{
    switch (first) {
    case '"':
        return JSON_STRING;
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

/* Its bit in json_index.found. */
static inline uint32_t json_bit_of(const struct json_member *m, const struct json_member *members)
{
    size_t i = (size_t)(m - members);
    return i < 32 ? UINT32_C(1) << i : 0;
}

/* The member of that name, which has no escapes; NULL: not wanted. Most names differ in their first letter. */
static inline struct json_member *json_member_named(struct json_member *members, size_t n, struct bytes name)
{
    if (name.n == 0)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (name.p[0] == members[i].name[0] && bytes_is(name, members[i].name))
            return &members[i];
    return NULL;
}

#endif
