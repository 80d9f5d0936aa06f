/*
 * cost_file.h: what computing takes, remembered from one process to the next.
 *
 * The file "costs" of the state folder has one record for each model with the settings that change
 * its speed. All numbers little-endian, reals as their IEEE bits:
 *
 *      0   8      magic "HEARTHCO"
 *      8   4      version, 1
 *      12  4      number n of records, the latest last
 *      16  176n   records: 32 bytes of key, 4 reals `ns`, 10 reals of `spread` (the upper
 *                 triangle, by rows), 4 bytes `samples`, 4 bytes `chunks`, 24 bytes zero
 *      ..  32     BLAKE3 of all bytes before it
 *
 * A file that is not exactly that is ignored and replaced. Two servers that share a folder may lose
 * each other's latest record, which then is learned again.
 *
 * Threads: any.
 */
#pragma once

#include "base/err.h"
#include "base/hash.h"
#include "sched/cost.h"

struct engine_facts;
struct engine_options;

/* The model and the settings that change its speed. */
struct hash256 cost_file_key(const struct engine_facts *facts,
                             const struct engine_options *options);

/* From the folder `dir`, for a restart (cost_resume). False: nothing usable is known. */
bool cost_file_read(const char *dir, const struct hash256 *key, struct cost *cost);
enum err cost_file_write(const char *dir, const struct hash256 *key, const struct cost *cost,
                         struct errinfo *info) NODISCARD;
