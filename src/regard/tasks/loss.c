/* The softmax of rows of logits, the loss against labels, and the gradient in the logits' place, in one visit a row.
 *
 * Written stage by stage, the same takes about ten passes over memory that no cache holds. A row's result does not depend
 * on the other rows nor on the number of threads. Numbers are float32, or bfloat16 (the upper half of a float32), for
 * which everything in between is float32.
 */
#include "../core/native.h"

typedef float floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

/* The largest of the numbers, and their mean; compilers do not vectorise a maximum that could meet a NaN. */
static void peak_and_mean(const float *row, int64_t count, float *peak, float *mean) {
    floats largest = (floats){0} - INFINITY, sums = (floats){0};
    int64_t v = 0;
    for (; v + LANES <= count; v += LANES) {
        const floats x = *(const floats *)(row + v);
        const ints above = x > largest;
        largest = (floats)(((ints)x & above) | ((ints)largest & ~above));
        sums += x;
    }
    float best = -INFINITY, sum = 0;
    for (int lane = 0; lane < LANES; lane++) {
        best = largest[lane] > best ? largest[lane] : best;
        sum += sums[lane];
    }
    for (; v < count; v++) {
        best = row[v] > best ? row[v] : best;
        sum += row[v];
    }
    *peak = best;
    *mean = sum / count;
}

/* `row` [V] holds logits and gets the gradient. Returns the loss. */
static float lose(float *row, int64_t vocab, int64_t label, float smoothing) {
    float peak, mean, mass = 0;
    const float right = row[label];
    peak_and_mean(row, vocab, &peak, &mean);
    for (int64_t v = 0; v < vocab; v++) mass += row[v] = exp_below(row[v] - peak);
    const float scale = 1 / mass, floor = smoothing / vocab;
    for (int64_t v = 0; v < vocab; v++) row[v] = row[v] * scale - floor;
    row[label] -= 1 - smoothing;
    return logf(mass) + peak - (1 - smoothing) * right - smoothing * mean;
}

/* logits [N,V] → their gradient, in place; losses [N]. bias [V] is added to the logits first and may be null. */
void softmax_loss_float(float *logits, int64_t rows, int64_t vocab, const int64_t *labels, float smoothing,
                        const float *bias, float *losses) {
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < rows; n++) {
        float *row = logits + n * vocab;
        if (bias)
            for (int64_t v = 0; v < vocab; v++) row[v] += bias[v];
        losses[n] = lose(row, vocab, labels[n], smoothing);
    }
}

/* The same for bfloat16. `room` [threads, V] is memory to work in, a row for each thread. */
void softmax_loss_low(uint16_t *logits, int64_t rows, int64_t vocab, const int64_t *labels, float smoothing,
                      const float *bias, float *losses, float *room, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t part = 0; part < threads; part++) {
        float *row = room + part * vocab;
        for (int64_t n = rows * part / threads; n < rows * (part + 1) / threads; n++) {
            uint16_t *low = logits + n * vocab;
            for (int64_t v = 0; v < vocab; v++) row[v] = from_low(low[v]) + (bias ? bias[v] : 0);
            losses[n] = lose(row, vocab, labels[n], smoothing);
            for (int64_t v = 0; v < vocab; v++) low[v] = to_low(row[v]);
        }
    }
}
