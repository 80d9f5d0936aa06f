/*
 * bench_words.c: letters from a small generator (splitmix64).
 */
#include "lab/bench_words.h"

#include "base/buf.h"

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void words_append(struct buf *out, size_t bytes, uint64_t seed)
{
    uint64_t state = seed;
    size_t left = 0; /* letters of the word */

    for (size_t i = 0; i < bytes; i++) {
        bool ends = left == 0 && i > 0 && i + 1 < bytes;
        if (left == 0)
            left = 2 + next(&state) % 7;
        else
            left--;
        buf_append_char(out, ends ? ' ' : (char)('a' + next(&state) % 26));
    }
}
