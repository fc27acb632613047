/* The loops that decide how fast a model runs on a CPU: products with packed weights, in float32, bfloat16 and int8,
 * and the attention of new tokens to paths in slots. This is plain C with the vector types of GCC and Clang.
 *
 * Weights [N,K] are packed into panels of COLUMNS outputs, so that a panel is read front to back, once for up to ROWS
 * rows of x at a time:
 *   float32   panel[k][column]
 *   bfloat16  panel[k / 2][column][k % 2], two neighbouring inputs together
 *   int8      panel[k / 4][column][k % 4], four neighbouring inputs together, as dot-product instructions need them
 * The last panel is padded with zeros.
 */
#include "../../core/native.h"
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#endif
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#define COLUMNS 64
#define VECTORS (COLUMNS / LANES)
#define ROWS 6
#define AHEAD 24576 /* how many bytes ahead a single row prefetches, so that memory is read without a pause */
#define SMALL 60000 /* products with fewer multiplications are not worth a second thread */

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float loose_floats __attribute__((vector_size(4 * LANES), aligned(4)));

/* y[row][column] = sum + bias + residual, for the columns that exist. */
static void finish(const floats *sums, int64_t row, int64_t first, int64_t n, const float *bias, const float *residual,
                   float *y, int64_t ldy) {
    float *out = y + row * ldy + first;
    const float *add = residual ? residual + row * ldy + first : 0;
    int64_t width = n - first < COLUMNS ? n - first : COLUMNS;
    if (width == COLUMNS) {
        for (int v = 0; v < VECTORS; v++) {
            floats sum = sums[v];
            if (bias) sum += *(const loose_floats *)(bias + first + v * LANES);
            if (add) sum += *(const loose_floats *)(add + v * LANES);
            *(loose_floats *)(out + v * LANES) = sum;
        }
        return;
    }
    const float *parts = (const float *)sums;
    for (int64_t c = 0; c < width; c++) out[c] = parts[c] + (bias ? bias[first + c] : 0) + (add ? add[c] : 0);
}

static inline __attribute__((always_inline)) void float_rows(const int rows, const float *x, int64_t k, const float *panel,
                                                             floats sums[ROWS][VECTORS]) {
    floats total[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) total[r][v] = (floats){0};
    for (int64_t i = 0; i < k; i++) {
        const floats *w = (const floats *)(panel + i * COLUMNS);
        if (rows == 1)
            for (int v = 0; v < VECTORS; v++) __builtin_prefetch((const char *)(w + v) + AHEAD, 0, 0);
        for (int r = 0; r < rows; r++) {
            const float value = x[r * k + i];
            for (int v = 0; v < VECTORS; v++) total[r][v] += value * w[v];
        }
    }
    memcpy(sums, total, sizeof(floats) * VECTORS * rows);
}

/* y [M,N] = x [M,K] packed(W) + bias + residual [M,N]; bias and residual may be null. x has no gaps between rows. */
void product_float(const float *x, int64_t m, int64_t k, const float *packed, int64_t n, const float *bias,
                   const float *residual, float *y) {
    const int64_t panels = (n + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for schedule(static) if (m * k * n > SMALL)
    for (int64_t p = 0; p < panels; p++) {
        const float *panel = packed + p * k * COLUMNS;
        for (int64_t row = 0; row < m; row += ROWS) {
            floats sums[ROWS][VECTORS];
            const float *part = x + row * k;
            const int rows = m - row < ROWS ? (int)(m - row) : ROWS;
            switch (rows) {
                case 1: float_rows(1, part, k, panel, sums); break;
                case 2: float_rows(2, part, k, panel, sums); break;
                case 3: float_rows(3, part, k, panel, sums); break;
                case 4: float_rows(4, part, k, panel, sums); break;
                case 5: float_rows(5, part, k, panel, sums); break;
                default: float_rows(6, part, k, panel, sums);
            }
            for (int r = 0; r < rows; r++) finish(sums[r], row + r, p * COLUMNS, n, bias, residual, y, n);
        }
    }
}

/* Tell the system that this memory is not needed now: pages of a file are dropped and read again at the next use. */
void let_go(const void *start, int64_t bytes) {
#if defined(MADV_PAGEOUT)
    const uintptr_t page = 4096, from = ((uintptr_t)start + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)start + bytes) / page * page;
    if (to > from) madvise((void *)from, to - from, MADV_PAGEOUT);
#endif
}

/* Return freed memory to the system. */
void trim(void) {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

/* Ask for large pages before the memory is written: reading it front to back then needs fewer address translations. */
static void large_pages(void *start, int64_t bytes) {
#if defined(MADV_HUGEPAGE)
    const uintptr_t page = 2 << 20, from = ((uintptr_t)start + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)start + bytes) / page * page;
    if (to > from) madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)start, (void)bytes;
#endif
}

void pack_float(const float *w, int64_t n, int64_t k, float *packed) {
    const int64_t panels = (n + COLUMNS - 1) / COLUMNS;
    large_pages(packed, panels * COLUMNS * k * 4);
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < panels; p++)
        for (int64_t i = 0; i < k; i++)
            for (int64_t c = 0; c < COLUMNS; c++) {
                const int64_t column = p * COLUMNS + c;
                packed[(p * k + i) * COLUMNS + c] = column < n ? w[column * k + i] : 0;
            }
}

/* ---- bfloat16: weights and x are rounded, sums are float32 ---- */

/* Whether the CPU has instructions for bfloat16 products. */
int64_t has_low_products(void) {
#if defined(__AVX512BF16__)
    return 1;
#else
    return 0;
#endif
}

void pack_low(const float *w, int64_t n, int64_t k, uint16_t *packed) {
    const int64_t pairs = (k + 1) / 2, panels = (n + COLUMNS - 1) / COLUMNS;
    large_pages(packed, panels * COLUMNS * pairs * 4);
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < panels; p++) {
        uint16_t *panel = packed + p * pairs * COLUMNS * 2;
        memset(panel, 0, pairs * COLUMNS * 4);
        for (int64_t c = 0; c < COLUMNS && p * COLUMNS + c < n; c++)
            for (int64_t i = 0; i < k; i++)
                panel[(i / 2 * COLUMNS + c) * 2 + i % 2] = to_low(w[(p * COLUMNS + c) * k + i]);
    }
}

#if defined(__AVX512BF16__)
static inline __attribute__((always_inline)) void low_rows(const int rows, const uint16_t *x, int64_t pairs,
                                                           const uint16_t *panel, floats sums[ROWS][VECTORS]) {
    __m512 total[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) total[r][v] = _mm512_setzero_ps();
    for (int64_t i = 0; i < pairs; i++) {
        const uint16_t *w = panel + i * COLUMNS * 2;
        if (rows == 1)
            for (int v = 0; v < VECTORS; v++) __builtin_prefetch((const char *)(w + v * 32) + AHEAD, 0, 0);
        for (int r = 0; r < rows; r++) {
            int32_t two;
            memcpy(&two, x + (r * pairs + i) * 2, 4);
            const __m512bh both = (__m512bh)_mm512_set1_epi32(two);
            for (int v = 0; v < VECTORS; v++)
                total[r][v] = _mm512_dpbf16_ps(total[r][v], (__m512bh)_mm512_loadu_si512(w + v * 32), both);
        }
    }
    memcpy(sums, total, sizeof(floats) * VECTORS * rows);
}

/* As product_float. `low` [M, 2·⌈K/2⌉] is working memory. */
void product_low(const float *x, int64_t m, int64_t k, const uint16_t *packed, int64_t n, const float *bias,
                 const float *residual, float *y, uint16_t *low) {
    const int64_t pairs = (k + 1) / 2, panels = (n + COLUMNS - 1) / COLUMNS;
#pragma omp parallel if (m * k * n > 2 * SMALL)
    {
#pragma omp for schedule(static)
        for (int64_t row = 0; row < m; row++) {
            for (int64_t i = 0; i < k; i++) low[row * pairs * 2 + i] = to_low(x[row * k + i]);
            if (k % 2) low[row * pairs * 2 + k] = 0;
        }
#pragma omp for schedule(static)
        for (int64_t p = 0; p < panels; p++) {
            const uint16_t *panel = packed + p * pairs * COLUMNS * 2;
            for (int64_t row = 0; row < m; row += ROWS) {
                floats sums[ROWS][VECTORS];
                const uint16_t *part = low + row * pairs * 2;
                const int rows = m - row < ROWS ? (int)(m - row) : ROWS;
                switch (rows) {
                    case 1: low_rows(1, part, pairs, panel, sums); break;
                    case 2: low_rows(2, part, pairs, panel, sums); break;
                    case 3: low_rows(3, part, pairs, panel, sums); break;
                    case 4: low_rows(4, part, pairs, panel, sums); break;
                    case 5: low_rows(5, part, pairs, panel, sums); break;
                    default: low_rows(6, part, pairs, panel, sums);
                }
                for (int r = 0; r < rows; r++) finish(sums[r], row + r, p * COLUMNS, n, bias, residual, y, n);
            }
        }
    }
}
#else
void product_low(void) {} /* never called: see has_low_products */
#endif

/* ---- int8: x ≈ (q − 128)·scale by row, W ≈ w·scale by output ---- */

/* Pack the weights of each output as int8 with their own scale. `sums` are 128 · Σ w, which the offset of x adds to the
 * sum of each output. */
void pack_int8(const float *w, int64_t n, int64_t k, int8_t *packed, float *scales, int32_t *sums) {
    const int64_t groups = (k + 3) / 4, panels = (n + COLUMNS - 1) / COLUMNS;
    large_pages(packed, panels * COLUMNS * groups * 4);
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < panels; p++) {
        int8_t *panel = packed + p * groups * COLUMNS * 4;
        memset(panel, 0, groups * COLUMNS * 4);
        for (int64_t c = 0; c < COLUMNS; c++) {
            const int64_t column = p * COLUMNS + c;
            scales[column] = 1;
            sums[column] = 0;
            if (column >= n) continue;
            float largest = 0;
            for (int64_t i = 0; i < k; i++) largest = fmaxf(largest, fabsf(w[column * k + i]));
            const float scale = largest > 0 ? largest / 127 : 1;
            scales[column] = scale;
            for (int64_t i = 0; i < k; i++) {
                const int8_t value = (int8_t)lrintf(w[column * k + i] / scale);
                panel[(i / 4 * COLUMNS + c) * 4 + i % 4] = value;
                sums[column] += 128 * value;
            }
        }
    }
}

static float quantize_row(const float *x, int64_t k, uint8_t *q) {
    float largest = 0;
    int64_t i = 0;
#if defined(__AVX512F__)
    __m512 most = _mm512_setzero_ps();
    for (; i + LANES <= k; i += LANES) most = _mm512_max_ps(most, _mm512_abs_ps(_mm512_loadu_ps(x + i)));
    largest = _mm512_reduce_max_ps(most);
#endif
    for (; i < k; i++) largest = fmaxf(largest, fabsf(x[i]));
    const float scale = largest > 0 ? largest / 127 : 1, inverse = 1 / scale;
    i = 0;
#if defined(__AVX512F__)
    for (; i + LANES <= k; i += LANES) {
        const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(inverse)));
        const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, _mm512_set1_epi32(128)));
        _mm_storeu_si128((__m128i *)(q + i), bytes);
    }
#endif
    for (; i < k; i++) q[i] = (uint8_t)((int32_t)nearbyintf(x[i] * inverse) + 128);
    for (i = k; i % 4; i++) q[i] = 0; /* its weights are 0 */
    return scale;
}

static inline __attribute__((always_inline)) void int8_rows(const int rows, const uint8_t *q, int64_t groups,
                                                            const int8_t *panel, ints sums[ROWS][VECTORS]) {
    ints total[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) total[r][v] = (ints){0};
    for (int64_t g = 0; g < groups; g++) {
        const int8_t *w = panel + g * COLUMNS * 4;
        if (rows == 1)
            for (int v = 0; v < VECTORS; v++) __builtin_prefetch(w + v * 64 + AHEAD, 0, 0);
        for (int r = 0; r < rows; r++) {
            const uint8_t *four = q + (r * groups + g) * 4;
#if defined(__AVX512VNNI__)
            int32_t bytes;
            memcpy(&bytes, four, 4);
            const __m512i x = _mm512_set1_epi32(bytes);
            for (int v = 0; v < VECTORS; v++)
                total[r][v] = (ints)_mm512_dpbusd_epi32((__m512i)total[r][v], x, _mm512_loadu_si512(w + v * 64));
#else
            for (int v = 0; v < VECTORS; v++)
                for (int lane = 0; lane < LANES; lane++) {
                    const int8_t *part = w + (v * LANES + lane) * 4;
                    total[r][v][lane] += four[0] * part[0] + four[1] * part[1] + four[2] * part[2] + four[3] * part[3];
                }
#endif
        }
    }
    memcpy(sums, total, sizeof(ints) * VECTORS * rows);
}

/* As product_float. `q` [M, 4·⌈K/4⌉] and `row_scales` [M] are working memory. */
void product_int8(const float *x, int64_t m, int64_t k, const int8_t *packed, const float *scales, const int32_t *offsets,
                  int64_t n, const float *bias, const float *residual, float *y, uint8_t *q, float *row_scales) {
    const int64_t groups = (k + 3) / 4, panels = (n + COLUMNS - 1) / COLUMNS;
#pragma omp parallel if (m * k * n > 4 * SMALL)
    {
#pragma omp for schedule(static)
        for (int64_t row = 0; row < m; row++) row_scales[row] = quantize_row(x + row * k, k, q + row * groups * 4);
#pragma omp for schedule(static)
        for (int64_t p = 0; p < panels; p++) {
            const int8_t *panel = packed + p * groups * COLUMNS * 4;
            const int64_t first = p * COLUMNS;
            for (int64_t row = 0; row < m; row += ROWS) {
                ints sums[ROWS][VECTORS];
                const uint8_t *part = q + row * groups * 4;
                const int rows = m - row < ROWS ? (int)(m - row) : ROWS;
                switch (rows) {
                    case 1: int8_rows(1, part, groups, panel, sums); break;
                    case 2: int8_rows(2, part, groups, panel, sums); break;
                    case 3: int8_rows(3, part, groups, panel, sums); break;
                    case 4: int8_rows(4, part, groups, panel, sums); break;
                    case 5: int8_rows(5, part, groups, panel, sums); break;
                    default: int8_rows(6, part, groups, panel, sums);
                }
                for (int r = 0; r < rows; r++) {
                    floats values[VECTORS];
                    for (int v = 0; v < VECTORS; v++) {
                        const int64_t at = first + v * LANES;
                        const ints whole = sums[r][v] - *(const ints *)(offsets + at);
                        values[v] = __builtin_convertvector(whole, floats) * *(const floats *)(scales + at) *
                                    row_scales[row + r];
                    }
                    finish(values, row + r, first, n, bias, residual, y, n);
                }
            }
        }
    }
}

/* ---- attention of one new token of each path ---- */

/* The parts of each function are inlined with the width of a head as a constant, for the usual widths. */
#define INLINE static inline __attribute__((always_inline))

/* Σ (x − shift), or of its squares. */
INLINE float sum_of(const float *x, int64_t k, float shift, const int squared) {
    floats parts = {0};
    float total = 0;
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        const floats value = *(const loose_floats *)(x + i) - shift;
        parts += squared ? value * value : value;
    }
    for (int lane = 0; lane < LANES; lane++) total += parts[lane];
    for (; i < k; i++) total += squared ? (x[i] - shift) * (x[i] - shift) : x[i] - shift;
    return total;
}

INLINE float dot(const float *a, const float *b, const int64_t e) {
#if defined(__AVX512F__)
    if (e % LANES == 0) {
        loose_floats sum = *(const loose_floats *)a * *(const loose_floats *)b;
        for (int64_t i = LANES; i < e; i += LANES)
            sum += *(const loose_floats *)(a + i) * *(const loose_floats *)(b + i);
        return _mm512_reduce_add_ps((__m512)sum);
    }
#endif
    float sum = 0;
    for (int64_t i = 0; i < e; i++) sum += a[i] * b[i];
    return sum;
}

/* out [E] = the values of the tokens first <= t < last, weighted by the softmax of their scores; `weights` [last] is
 * working memory. */
INLINE void attend_head(const int64_t e, const float *query, const float *keys, const float *values, const uint8_t *open,
                        int64_t first, int64_t last, float scale, float *weights, float *out) {
    float largest = -INFINITY, total[e];
    for (int64_t t = first; t < last; t++) {
        for (int64_t i = 0; i < e; i += LANES) __builtin_prefetch(values + t * e + i); /* needed next */
        weights[t] = open && !open[t] ? -INFINITY : scale * dot(query, keys + t * e, e);
        largest = weights[t] > largest ? weights[t] : largest;
    }
    memset(out, 0, sizeof(float) * e);
    if (largest == -INFINITY) return;
    for (int64_t t = first; t < last; t++) weights[t] = exp_below(weights[t] - largest);
    const float sum = sum_of(weights + first, last - first, 0, 0);
    for (int64_t i = 0; i < e; i++) total[i] = 0;
    for (int64_t t = first; t < last; t++) {
        const float weight = weights[t];
        for (int64_t i = 0; i < e; i++) total[i] += weight * values[t * e + i];
    }
    for (int64_t i = 0; i < e; i++) out[i] = total[i] / sum;
}

/* The numbers of a tensor [rows, heads, tokens, E], and its strides between rows and between heads. Tokens are adjacent
 * in memory. */
typedef struct {
    const float *numbers;
    int64_t row, head;
} Part;

typedef struct {
    Part query;                 /* [N,H,·,E]: one token per row */
    Part new_keys, new_values;  /* [N,G,·,E]: if given, written as the last token of each row's slot */
    Part keys, values;          /* [P,G,C,E] */
    float *context;             /* [N,H,E] */
    float *room;                /* [N,H,longest]: the weights */
    const int64_t *slots;       /* [N]: the row of keys that row n reads */
    const int64_t *first, *last; /* [N]: row n reads the tokens first <= t < last; a null `first` means 0 */
    const uint8_t *allowed;     /* [P,·]: 0 forbids a token; may be null */
    int64_t allowed_row, rows, heads, key_heads, width, longest;
    float scale;
} Attention;

/* The context of one new token of each path. Query head h uses key head h * G / H. A row that may see no token gets
 * zeros. */
void attend_paths(const Attention *a) {
    const int64_t n = a->rows, h = a->heads, g = a->key_heads, e = a->width;
    int64_t work = 0;
    for (int64_t row = 0; row < n; row++) work += a->last[row] * h * e;
#pragma omp parallel for collapse(2) schedule(static) if (work > SMALL)
    for (int64_t row = 0; row < n; row++)
        for (int64_t group = 0; group < g; group++) {
            const int64_t slot = a->slots[row], last = a->last[row], first = a->first ? a->first[row] : 0;
            float *keys = (float *)a->keys.numbers + slot * a->keys.row + group * a->keys.head;
            float *values = (float *)a->values.numbers + slot * a->values.row + group * a->values.head;
            if (a->new_keys.numbers) {
                const float *key = a->new_keys.numbers + row * a->new_keys.row + group * a->new_keys.head;
                const float *value = a->new_values.numbers + row * a->new_values.row + group * a->new_values.head;
                memcpy(keys + (last - 1) * e, key, sizeof(float) * e);
                memcpy(values + (last - 1) * e, value, sizeof(float) * e);
            }
            const uint8_t *open = a->allowed ? a->allowed + slot * a->allowed_row : 0;
            for (int64_t head = group * h / g; head < (group + 1) * h / g; head++) {
                const float *query = a->query.numbers + row * a->query.row + head * a->query.head;
                float *out = a->context + (row * h + head) * e, *weights = a->room + (row * h + head) * a->longest;
#define RUN(width) attend_head(width, query, keys, values, open, first, last, a->scale, weights, out)
                switch (e) {
                    case 16: RUN(16); break;
                    case 32: RUN(32); break;
                    case 64: RUN(64); break;
                    case 128: RUN(128); break;
                    default: RUN(e);
                }
#undef RUN
            }
        }
}

/* ---- a whole step of a model, as a list of operations on buffers with a row for each path ---- */

enum { NORM, PRODUCT, ATTEND, ACTIVATE, GATE, ROTATE };
enum { LAYER, ROOT_MEAN_SQUARE };                            /* forms of NORM */
enum { IN_FLOAT, IN_LOW, IN_INT8 };                          /* of PRODUCT */
enum { RELU, GELU, GELU_TANH, QUICK_GELU, SILU, TANH };      /* of ACTIVATE and GATE */
enum { NEIGHBOURS, HALVES };                                 /* of ROTATE */

typedef struct {
    int64_t kind, form;
    const float *x, *residual; /* [M,k], and [M,n] if it is not null */
    float *y;                  /* [M,n]; may be x if each row of y depends only on the same row of x */
    int64_t k, n;
    const void *weights, *scales, *offsets;
    const float *bias;
    void *room; /* working memory */
    Attention attention;
    float eps;
} Operation;

static void norm_rows(const Operation *o, int64_t m) {
    const float *weight = o->weights, *bias = o->bias;
    const int64_t k = o->k;
#pragma omp parallel for schedule(static) if (m * k > SMALL)
    for (int64_t row = 0; row < m; row++) {
        const float *x = o->x + row * k;
        float *y = o->y + row * k;
        const float mean = o->form == LAYER ? sum_of(x, k, 0, 0) / k : 0;
        const float inverse = 1 / sqrtf(sum_of(x, k, mean, 1) / k + o->eps);
        for (int64_t i = 0; i < k; i++) {
            const float value = (x[i] - mean) * inverse;
            y[i] = (weight ? value * weight[i] : value) + (bias ? bias[i] : 0);
        }
    }
}

/* 1 / (1 + exp(-x)) */
INLINE float sigmoid(float x) {
    const float small = exp_below(x < 0 ? x : -x);
    return (x < 0 ? small : 1) / (1 + small);
}

/* tanh: 2σ(2x) − 1 far from 0; near 0, where this form loses precision, the series. */
INLINE float tanh_of(float x) {
    const float square = x * x, far = 2 * sigmoid(2 * x) - 1;
    const float near = x * (1 + square * (-1.0f / 3 + square * (2.0f / 15 + square * (-17.0f / 315))));
    return square < 0.04f ? near : far;
}

/* erf by Abramowitz and Stegun 7.1.26, with an error of at most 1.5e-7. */
INLINE float erf_of(float x) {
    const float size = x < 0 ? -x : x, t = 1 / (1 + 0.3275911f * size);
    const float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const float value = 1 - p * exp_below(-size * size);
    return x < 0 ? -value : value;
}

INLINE float activated(const int64_t form, float x) {
    switch (form) {
        case RELU: return x > 0 ? x : 0;
        case GELU: return 0.5f * x * (1 + erf_of(0.70710678f * x));
        case GELU_TANH: return 0.5f * x * (1 + tanh_of(0.79788456f * (x + 0.044715f * x * x * x)));
        case QUICK_GELU: return x * sigmoid(1.702f * x);
        case SILU: return x * sigmoid(x);
        default: return tanh_of(x);
    }
}

/* y [n] = φ(y) in place, or φ(x[:n]) · x[n:] if x is given. */
INLINE void activate_row(const int64_t form, const float *x, float *y, int64_t n) {
    if (x)
        for (int64_t i = 0; i < n; i++) y[i] = activated(form, x[i]) * x[n + i];
    else
        for (int64_t i = 0; i < n; i++) y[i] = activated(form, y[i]);
}

static void activate_rows(const Operation *o, int64_t m) {
    const int64_t n = o->n, k = o->k;
#pragma omp parallel for schedule(static) if (m * n > SMALL / 4)
    for (int64_t row = 0; row < m; row++) {
        const float *x = o->kind == GATE ? o->x + row * k : 0;
        float *y = o->y + row * n;
        switch (o->form) { /* a loop for each, so that it can be vectorised */
            case RELU: activate_row(RELU, x, y, n); break;
            case GELU: activate_row(GELU, x, y, n); break;
            case GELU_TANH: activate_row(GELU_TANH, x, y, n); break;
            case QUICK_GELU: activate_row(QUICK_GELU, x, y, n); break;
            case SILU: activate_row(SILU, x, y, n); break;
            default: activate_row(TANH, x, y, n);
        }
    }
}

/* The first n numbers of each row are heads of width k. Turn their pairs by angles, whose cosines and sines are
 * `weights` [·, k/2, 2]; `attention.allowed_row` is the stride of `weights` between rows. */
static void rotate_rows(const Operation *o, int64_t m) {
    const int64_t half = o->k / 2, width = o->k, row_size = o->attention.longest;
    for (int64_t row = 0; row < m; row++) {
        const float *turns = (const float *)o->weights + row * o->attention.allowed_row;
        for (int64_t start = 0; start < o->n; start += width) {
            float *head = o->y + row * row_size + start;
            for (int64_t i = 0; i < half; i++) {
                const int64_t a = o->form == HALVES ? i : 2 * i, b = o->form == HALVES ? i + half : 2 * i + 1;
                const float cosine = turns[2 * i], sine = turns[2 * i + 1], low = head[a], high = head[b];
                head[a] = low * cosine - high * sine;
                head[b] = low * sine + high * cosine;
            }
        }
    }
}

static void product_rows(const Operation *o, int64_t m) {
    switch (o->form) {
        case IN_FLOAT: product_float(o->x, m, o->k, o->weights, o->n, o->bias, o->residual, o->y); break;
#if defined(__AVX512BF16__)
        case IN_LOW: product_low(o->x, m, o->k, o->weights, o->n, o->bias, o->residual, o->y, o->room); break;
#endif
        default: {
            uint8_t *q = o->room;
            product_int8(o->x, m, o->k, o->weights, o->scales, o->offsets, o->n, o->bias, o->residual, o->y, q,
                         (float *)(q + m * ((o->k + 3) / 4 * 4)));
        }
    }
}

void run_step(Operation *operations, int64_t count, int64_t m) {
    for (Operation *o = operations; o < operations + count; o++) switch (o->kind) {
            case NORM: norm_rows(o, m); break;
            case PRODUCT: product_rows(o, m); break;
            case ATTEND: o->attention.rows = m, attend_paths(&o->attention); break;
            case ROTATE: rotate_rows(o, m); break;
            default: activate_rows(o, m);
        }
}
