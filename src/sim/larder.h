/* What providers hold in their prompt caches, told from the hashes of the prompts that went there. A prompt is looked
 * for by three names, the longest hit counts:
 *
 *     |-- head --|                                 tools and system, shared by many conversations
 *     |-- conversation as far as it was held --|   grows from turn to turn
 *     |-- up to the last marker --|                the same text again, whoever asks
 *
 * An entry can be read as soon as the answer that wrote it has begun, and lives so long after its last use. Times are
 * microseconds of the caller's clock, not falling. */
#ifndef RM_SIM_LARDER_H
#define RM_SIM_LARDER_H

#include <stdbool.h>
#include <stdint.h>

struct larder;

/* ASKED: what is marked is written, and read where it is marked (Messages). AUTOMATIC: reads without being asked, in
 * blocks, and writes for nothing. */
enum larder_way { LARDER_NONE, LARDER_ASKED, LARDER_AUTOMATIC };

struct larder_prompt {
    uint16_t target;
    enum larder_way way;
    bool is_marked;                            /* ASKED: the hint went along */
    uint64_t talk_hash, head_hash, cache_hash; /* 0 = none */
    int64_t n_held;                            /* tokens that are held after it; 0 = nothing can be */
    int64_t n_head;                            /* of them, those of the head, where it is held for itself; 0 = none */
    uint64_t ttl_us;
};
struct larder_use { /* tokens; of the rest nothing was cached */
    int64_t n_read, n_written;
};

/* Empty. Release with larder_free (NULL too). */
struct larder *larder_new(void);
void larder_free(struct larder *l);
/* The prompt arrives there: what it reads, which lives on for it, and what it would write. */
struct larder_use larder_look(struct larder *l, const struct larder_prompt *p, uint64_t now_us);
/* Its answer has begun. */
void larder_keep(struct larder *l, const struct larder_prompt *p, uint64_t now_us);

#endif
