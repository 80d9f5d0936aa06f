/*
 * fuzz.h: what a fuzz target is: fuzz/NAME_fuzz.c defines this function, and fuzz/corpus/NAME has
 * its inputs.
 *
 * It is given any bytes, any number of times in one process, keeps no state from one call to the
 * next, and says with assert() or abort() that something is wrong; memory errors are the
 * sanitizers' business. libFuzzer calls it where clang has it, fuzz/driver.c elsewhere and in `make
 * test`: a target has no main().
 */
#ifndef HEARTH_FUZZ_FUZZ_H
#define HEARTH_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Always 0. The name is libFuzzer's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#endif
