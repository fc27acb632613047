/* Functions that several C files need. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16

/* bfloat16 is the upper half of a float32. */
static inline float from_low(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Round to the nearest, ties to even. */
static inline uint16_t to_low(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* exp(x) for x <= 0 to about one unit in the last place: 2^n · exp(r), |r| <= ln 2 / 2; 0 below -87. */
static inline float exp_below(float x) {
    x = x > -87.0f ? x : -87.0f;
    const float n = nearbyintf(x * 1.44269504f);
    const float r = fmaf(n, -1.42860677e-6f, fmaf(n, -0.693145752f, x));
    float p = 1.98756915e-4f;
    p = fmaf(p, r, 1.39819995e-3f);
    p = fmaf(p, r, 8.33345190e-3f);
    p = fmaf(p, r, 4.16657962e-2f);
    p = fmaf(p, r, 1.66666657e-1f);
    p = fmaf(p, r, 5.00000000e-1f);
    p = fmaf(p, r * r, r + 1.0f);
    const uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, 4);
    return x <= -87.0f ? 0.0f : p * power;
}
