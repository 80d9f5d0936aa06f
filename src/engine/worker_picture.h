/*
 * worker_picture.h: how an engine's process describes a picture to its parent, in shared memory.
 *
 *      | tokens | pieces | weak |  tokens ...  |  at, count, positions of each piece ...  |
 *
 * All numbers have 32 bits. Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct picture;

/* The room that a picture of `tokens` tokens needs, in as many pieces. */
uint64_t worker_picture_bytes_max(uint32_t tokens);

/* Returns the bytes written; 0: `room` bytes are too few. */
uint64_t worker_picture_encode(const struct picture *picture, void *at, uint64_t room);

/* Fills tokens, pieces and `weak` of a new picture. False: this describes no picture; what was
 * filled is released by picture_destroy. */
bool worker_picture_decode(struct picture *picture, const void *from, uint64_t bytes);
