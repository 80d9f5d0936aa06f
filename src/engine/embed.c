/*
 * embed.c: arithmetic on vectors. Sums are doubles, so that the result does not depend on the
 * number of dimensions in any digit that a client sees.
 */
#include "engine/embed.h"

#include <math.h>

const char *const engine_pooling_names[] = {ENGINE_POOLING_TABLE(TABLE_NAME) NULL};

static double dot(const float *a, const float *b, size_t size)
{
    double sum = 0;

    for (size_t i = 0; i < size; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

void embed_normalize(float *vector, size_t size)
{
    double length = sqrt(dot(vector, vector, size));

    for (size_t i = 0; i < size && length > 0; i++)
        vector[i] = (float)(vector[i] / length);
}

float embed_cosine(const float *a, const float *b, size_t size)
{
    double lengths = sqrt(dot(a, a, size)) * sqrt(dot(b, b, size));

    return lengths > 0 ? (float)(dot(a, b, size) / lengths) : 0;
}
