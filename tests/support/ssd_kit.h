/*
 * ssd_kit.h: what the suites of the SSD tier share: directories, damage, and what really lies on
 * the disk.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tier/ssd_format.h"
#include "tier/tier_ssd.h"

/* A new path below the test's folder each time; nothing is there. Borrowed until the next 15 calls.
 */
const char *ssd_kit_new_path(void);

/* Options with that path, a fixed key and enough time to close. */
struct tier_ssd_options ssd_kit_options(const char *path, uint64_t bytes_max);
/* A fixed key to encrypt objects with, for options.seal_key. */
const struct hash256 *ssd_kit_seal_key(void);
/* fails the test when it cannot */
struct tier *ssd_kit_open(const struct tier_ssd_options *options);

/* The path of key n's file. */
void ssd_kit_object_path(const char *dir, uint32_t n, char out[1024]);
/* Flips one bit at `offset` from the start, or, when it is negative, from the end of key n's file.
 */
void ssd_kit_flip(const char *dir, uint32_t n, int64_t offset);

/* Blocks of all files and directories below `dir`, itself included; and how many regular files have
 * a name that ends so ("" = all). */
uint64_t ssd_kit_disk_bytes(const char *dir);
int ssd_kit_count_files(const char *dir, const char *suffix);

/* Removes a directory and all that is in it: a campaign does not wait for the end of the test with
 * thousands of them. */
void ssd_kit_remove(const char *dir);

struct tier_ssd_stats ssd_kit_stats(struct tier *tier);
/* Aborts when tables and counts are inconsistent. O(n); no operation may be running. */
void tier_ssd_check(struct tier *tier);

/* Stores a version of key n and waits, whatever the result; TIER_RESULT_COUNT: not taken. */
enum tier_result ssd_kit_put(struct tier *tier, uint32_t n, uint32_t version, uint64_t bytes);
/* Reads key n to `dst`, which has room for `bytes`, and waits. */
enum tier_result ssd_kit_get(struct tier *tier, uint32_t n, void *dst, uint64_t bytes);
void ssd_kit_drop(struct tier *tier, uint32_t n);
