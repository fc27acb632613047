/* The softmax of rows of logits, the loss against labels, and the gradient, which overwrites the logits. One row is
 * finished before the next begins.
 *
 * As separate operations, the same takes about ten passes over memory that no cache holds. A row's result does not depend
 * on the other rows or on the number of threads. Numbers are float32, or bfloat16 (the upper half of a float32), for
 * which all intermediate numbers are float32.
 */
#include "../core/native.h"

typedef float floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

/* The maximum of the numbers, and their mean. Compilers do not vectorise a maximum of numbers that may be NaN. */
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

/* Two rows of logits of one token, of two passes: the mean of their losses and strength / 4 times the divergence of
 * their distributions p and q, KL(p | q) + KL(q | p). Both rows get the gradient. `p` and `q` are rows to work in. */
static float agree(float *first, float *second, float *p, float *q, int64_t vocab, int64_t label, float smoothing,
                   float strength) {
    float peaks[2], means[2], masses[2] = {0, 0};
    const float right = first[label] + second[label];
    peak_and_mean(first, vocab, &peaks[0], &means[0]);
    peak_and_mean(second, vocab, &peaks[1], &means[1]);
    for (int64_t v = 0; v < vocab; v++) masses[0] += p[v] = exp_below(first[v] - peaks[0]);
    for (int64_t v = 0; v < vocab; v++) masses[1] += q[v] = exp_below(second[v] - peaks[1]);
    const float log_p = logf(masses[0]) + peaks[0], log_q = logf(masses[1]) + peaks[1], apart = log_p - log_q;
    const float scale_p = 1 / masses[0], scale_q = 1 / masses[1], floor = smoothing / vocab, share = strength / 4;
    float forward = 0, backward = 0;
    for (int64_t v = 0; v < vocab; v++) {
        const float ratio = first[v] - second[v] - apart;
        forward += p[v] * ratio;
        backward -= q[v] * ratio;
    }
    forward *= scale_p;
    backward *= scale_q;
    for (int64_t v = 0; v < vocab; v++) {
        const float ratio = first[v] - second[v] - apart, by_p = p[v] * scale_p, by_q = q[v] * scale_q;
        first[v] = 0.5f * (by_p - floor) + share * (by_p * (ratio - forward) + by_p - by_q);
        second[v] = 0.5f * (by_q - floor) + share * (by_q * (-ratio - backward) + by_q - by_p);
    }
    first[label] -= 0.5f * (1 - smoothing);
    second[label] -= 0.5f * (1 - smoothing);
    const float losses = log_p + log_q - (1 - smoothing) * right - smoothing * (means[0] + means[1]);
    return 0.5f * losses + share * (forward + backward);
}

/* first, second [N,V] → their gradients, in place; losses [N]. `room` [threads, 2, V] is memory to work in. */
void agreement_float(float *first, float *second, int64_t rows, int64_t vocab, const int64_t *labels, float smoothing,
                     const float *bias, float strength, float *losses, float *room, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t part = 0; part < threads; part++) {
        float *p = room + part * 2 * vocab, *q = p + vocab;
        for (int64_t n = rows * part / threads; n < rows * (part + 1) / threads; n++) {
            float *a = first + n * vocab, *b = second + n * vocab;
            for (int64_t v = 0; bias && v < vocab; v++) {
                a[v] += bias[v];
                b[v] += bias[v];
            }
            losses[n] = agree(a, b, p, q, vocab, labels[n], smoothing, strength);
        }
    }
}

/* The same for bfloat16; `room` is [threads, 4, V]. */
void agreement_low(uint16_t *first, uint16_t *second, int64_t rows, int64_t vocab, const int64_t *labels, float smoothing,
                   const float *bias, float strength, float *losses, float *room, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t part = 0; part < threads; part++) {
        float *a = room + part * 4 * vocab, *b = a + vocab, *p = b + vocab, *q = p + vocab;
        for (int64_t n = rows * part / threads; n < rows * (part + 1) / threads; n++) {
            uint16_t *low_a = first + n * vocab, *low_b = second + n * vocab;
            for (int64_t v = 0; v < vocab; v++) a[v] = from_low(low_a[v]) + (bias ? bias[v] : 0);
            for (int64_t v = 0; v < vocab; v++) b[v] = from_low(low_b[v]) + (bias ? bias[v] : 0);
            losses[n] = agree(a, b, p, q, vocab, labels[n], smoothing, strength);
            for (int64_t v = 0; v < vocab; v++) low_a[v] = to_low(a[v]);
            for (int64_t v = 0; v < vocab; v++) low_b[v] = to_low(b[v]);
        }
    }
}
