/* The most probable tokens of rows of logits, and their log-probabilities, without writing the other log-probabilities.
 *
 * A row is read twice: for the largest logit of each chunk, then for the sum of the softmax. Chunks whose largest logit
 * cannot be among the best are skipped. A row's result depends neither on the other rows nor on the threads.
 */
#include "../core/native.h"

#define CHUNK 256

typedef float floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

/* The largest of some numbers; a NaN among them gives a NaN. */
static float largest(const float *x, int64_t count) {
    floats best = (floats){0} - INFINITY;
    ints unequal = (ints){0};
    int64_t v = 0;
    for (; v + LANES <= count; v += LANES) {
        const floats now = *(const floats *)(x + v);
        const ints above = now > best;
        best = (floats)(((ints)now & above) | ((ints)best & ~above));
        unequal |= now != now;
    }
    float peak = -INFINITY;
    int broken = 0;
    for (int lane = 0; lane < LANES; lane++) {
        peak = best[lane] > peak ? best[lane] : peak;
        broken |= unequal[lane];
    }
    for (; v < count; v++) {
        peak = x[v] > peak ? x[v] : peak;
        broken |= x[v] != x[v];
    }
    return broken ? NAN : peak;
}

static int is_among(int64_t token, const int64_t *tokens, int64_t count) {
    for (int64_t n = 0; n < count; n++)
        if (tokens[n] == token) return 1;
    return 0;
}

/* The `count` best tokens of a row, best first; of equal tokens the first comes first. If fewer are allowed, the
 * remaining log-probabilities are -inf. */
static void best_of_row(const float *x, int64_t vocab, int64_t count, const int64_t *forbidden, int64_t n_forbidden,
                        float *peaks, float *log_probs, int64_t *tokens) {
    const int64_t chunks = (vocab + CHUNK - 1) / CHUNK;
    float peak = -INFINITY, mass = 0;
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t start = c * CHUNK, size = vocab - start < CHUNK ? vocab - start : CHUNK;
        peaks[c] = largest(x + start, size);
        peak = peaks[c] > peak || peaks[c] != peaks[c] ? peaks[c] : peak;
    }
    for (int64_t n = 0; n < count; n++) {
        log_probs[n] = -INFINITY;
        tokens[n] = 0;
    }
    /* The logits contain a NaN or +inf, or are all -inf: the caller gets a NaN. */
    if (!(peak > -INFINITY && peak < INFINITY)) {
        log_probs[0] = NAN;
        return;
    }
    for (int64_t v = 0; v < vocab; v++) mass += exp_below(x[v] - peak);
    for (int64_t c = 0; c < chunks; c++) {
        if (!(peaks[c] > log_probs[count - 1])) continue;
        const int64_t start = c * CHUNK, end = start + CHUNK < vocab ? start + CHUNK : vocab;
        for (int64_t v = start; v < end; v++) {
            if (!(x[v] > log_probs[count - 1]) || is_among(v, forbidden, n_forbidden)) continue;
            int64_t place = count - 1;
            for (; place > 0 && x[v] > log_probs[place - 1]; place--) {
                log_probs[place] = log_probs[place - 1];
                tokens[place] = tokens[place - 1];
            }
            log_probs[place] = x[v];
            tokens[place] = v;
        }
    }
    const float whole = logf(mass);
    for (int64_t n = 0; n < count; n++) log_probs[n] = log_probs[n] - peak - whole;
}

/* Rows `index` [N] of logits [.., V] → log_probs, tokens [N, count]. `room` has a float for each chunk and thread. */
void best_tokens(const float *logits, int64_t stride, const int64_t *index, int64_t rows, int64_t vocab, int64_t count,
                 const int64_t *forbidden, int64_t n_forbidden, float *room, float *log_probs, int64_t *tokens,
                 int64_t threads) {
    const int64_t chunks = (vocab + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t part = 0; part < threads; part++)
        for (int64_t n = rows * part / threads; n < rows * (part + 1) / threads; n++)
            best_of_row(logits + index[n] * stride, vocab, count, forbidden, n_forbidden, room + part * chunks,
                        log_probs + n * count, tokens + n * count);
}
