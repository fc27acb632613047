/* The loops of word2vec and GloVe. `models/_word_loops.py` calls them; `_word_loops_plain.py` has the same in numpy.

   Random numbers are a function of their index: draw number n of a text is splitmix64(key + n), so that the draws do
   not depend on the number of threads. Threads share the weights without locks (Niu et al. 2011, "Hogwild"): with one
   thread the result is always the same, with several it differs slightly from run to run. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 10000 /* tokens; windows do not cross pieces */
#define MOST_TARGETS 64

int64_t word_loops_version(void) { return 1; }

static inline uint64_t draw(uint64_t key, uint64_t number)
{
    uint64_t z = key + (number + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static inline float dot(const float *restrict a, const float *restrict b, int64_t width)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < width; d++) sum += a[d] * b[d];
    return sum;
}

static inline void add(float *restrict to, const float *restrict from, float times, int64_t width)
{
#pragma omp simd
    for (int64_t d = 0; d < width; d++) to[d] += times * from[d];
}

typedef struct {
    const int32_t *tokens;  /* [count] */
    int64_t count, first;   /* `first`: index of the first token in the text */
    uint64_t key;
    float *input, *output;  /* [V,width] */
    int64_t width, vocabulary, specials, end; /* ids below `specials` are special tokens; `end` ends a document */
    const uint32_t *keep;   /* [V]: a word is kept if 32 random bits are at most this */
    const uint32_t *stay;   /* [V]: alias table of the noise distribution */
    const int32_t *alias;   /* [V] */
    int64_t window, negative, cbow, threads;
    double lr, done, total; /* the learning rate falls linearly with done / total, the tokens of all epochs */
    double loss, pairs;     /* out: summed over a sixteenth of the positions */
} Word2vec;

/* One prediction: `from` predicts `target` against the noise words of `draws`. All scores are computed before any
   change, so this is a step along the exact gradient. Returns the loss if `asked`. */
static double predict(const Word2vec *w, const float *from, float *change, int32_t target, uint64_t draws, float lr,
                      int asked)
{
    int32_t targets[MOST_TARGETS];
    float errors[MOST_TARGETS];
    int64_t width = w->width, n = 1;
    double loss = 0;
    targets[0] = target;
    for (int64_t k = 0; k < w->negative; k++) {
        uint64_t bits = draw(w->key, draws + k);
        int32_t word = (int32_t)(((bits >> 32) * (uint64_t)w->vocabulary) >> 32);
        if ((uint32_t)bits >= w->stay[word]) word = w->alias[word];
        if (word != target) targets[n++] = word;
    }
    for (int64_t k = 0; k < n; k++) errors[k] = dot(from, w->output + targets[k] * width, width);
    for (int64_t k = 0; k < n; k++) {
        float score = errors[k];
        if (asked) loss += log1p(exp(-fabs(score))) + fmax(0, k ? score : -score);
        errors[k] = lr * ((k == 0) - 1 / (1 + expf(-score)));
    }
    memset(change, 0, width * sizeof(float));
    for (int64_t k = 0; k < n; k++) add(change, w->output + targets[k] * width, errors[k], width);
    for (int64_t k = 0; k < n; k++) add(w->output + targets[k] * width, from, errors[k], width);
    return loss;
}

/* Train on kept words `ids` [n] whose indices in the text are `places`; `room` holds 2 vectors. */
static void sentence(const Word2vec *w, const int32_t *ids, const int64_t *places, int64_t n, float lr, float *room,
                     double *loss, double *pairs)
{
    int64_t width = w->width, window = w->window, each = 2 + 2 * window * w->negative;
    float *change = room, *mean = room + width;
    for (int64_t i = 0; i < n; i++) {
        uint64_t draws = (uint64_t)places[i] * (uint64_t)each;
        uint64_t bits = draw(w->key, draws + 1);
        int64_t reach = 1 + (int64_t)(((bits >> 32) * (uint64_t)window) >> 32);
        int64_t low = i > reach ? i - reach : 0, high = i + reach < n - 1 ? i + reach : n - 1;
        int asked = bits % 16 == 0;
        draws += 2;
        if (w->cbow) {
            if (high == low) continue;
            memset(mean, 0, width * sizeof(float));
            for (int64_t j = low; j <= high; j++)
                if (j != i) add(mean, w->input + ids[j] * width, 1.0f / (float)(high - low), width);
            *loss += predict(w, mean, change, ids[i], draws, lr, asked);
            *pairs += asked;
            for (int64_t j = low; j <= high; j++)
                if (j != i) add(w->input + ids[j] * width, change, 1, width);
            continue;
        }
        for (int64_t j = low; j <= high; j++) {
            if (j == i) continue;
            float *from = w->input + ids[j] * width;
            *loss += predict(w, from, change, ids[i], draws, lr, asked);
            *pairs += asked;
            add(from, change, 1, width);
            draws += w->negative;
        }
    }
}

static int piece(const Word2vec *w, int64_t begin, int64_t end, double *loss, double *pairs)
{
    int64_t each = 2 + 2 * w->window * w->negative, n = 0;
    int32_t *ids = malloc(PIECE * sizeof(int32_t));
    int64_t *places = malloc(PIECE * sizeof(int64_t));
    float *room = malloc(2 * w->width * sizeof(float));
    double share = 1 - (w->done + (double)begin) / w->total;
    float lr = (float)(w->lr * (share > 1e-4 ? share : 1e-4));
    int enough = ids && places && room;
    for (int64_t t = begin; enough && t < end; t++) {
        int32_t id = w->tokens[t];
        int64_t place = w->first + t;
        if (id >= w->specials && (draw(w->key, (uint64_t)place * (uint64_t)each) >> 32) <= w->keep[id])
            ids[n] = id, places[n++] = place;
        if (id == w->end || t + 1 == end) {
            sentence(w, ids, places, n, lr, room, loss, pairs);
            n = 0;
        }
    }
    free(ids), free(places), free(room);
    return enough;
}

int64_t word2vec(Word2vec *w)
{
    double loss = 0, pairs = 0;
    int64_t pieces = (w->count + PIECE - 1) / PIECE, enough = 1;
    if (w->negative + 1 > MOST_TARGETS) return 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : loss, pairs) reduction(& : enough) num_threads(w->threads)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t end = (p + 1) * PIECE < w->count ? (p + 1) * PIECE : w->count;
        enough &= piece(w, p * PIECE, end, &loss, &pairs);
    }
    w->loss = loss, w->pairs = pairs;
    return enough;
}

typedef struct {
    const int64_t *order; /* [count]: the order of the entries */
    const int32_t *rows, *columns;
    const float *counts;
    int64_t count, width, threads;
    float *vectors[2], *biases[2], *vector_sums[2], *bias_sums[2]; /* of words and of contexts; AdaGrad's sums */
    double lr, limit, power;
    double loss; /* out: the sum over all entries */
} Glove;

static inline void descend(float *restrict x, float *restrict sum, float step)
{
    *x -= step / sqrtf(*sum);
    *sum += step * step;
}

int64_t glove(Glove *g)
{
    double loss = 0;
    int64_t width = g->width;
#pragma omp parallel for schedule(static) reduction(+ : loss) num_threads(g->threads)
    for (int64_t k = 0; k < g->count; k++) {
        int64_t entry = g->order[k], i = g->rows[entry], j = g->columns[entry];
        float count = g->counts[entry];
        float *restrict w = g->vectors[0] + i * width, *restrict c = g->vectors[1] + j * width;
        float *restrict w_sum = g->vector_sums[0] + i * width, *restrict c_sum = g->vector_sums[1] + j * width;
        float error = dot(w, c, width) + g->biases[0][i] + g->biases[1][j] - logf(count);
        float weight = count >= g->limit ? 1 : powf(count / (float)g->limit, (float)g->power);
        float step = (float)g->lr * weight * error;
        loss += 0.5 * weight * error * error;
#pragma omp simd
        for (int64_t d = 0; d < width; d++) {
            float to_w = step * c[d], to_c = step * w[d];
            w[d] -= to_w / sqrtf(w_sum[d]), c[d] -= to_c / sqrtf(c_sum[d]);
            w_sum[d] += to_w * to_w, c_sum[d] += to_c * to_c;
        }
        descend(g->biases[0] + i, g->bias_sums[0] + i, step);
        descend(g->biases[1] + j, g->bias_sums[1] + j, step);
    }
    g->loss = loss;
    return 1;
}
