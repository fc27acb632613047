/* Copies paths from slot to slot, with one call for all keys and values of a model and without temporary buffers. */
#include "native.h"

/* The memory of all slots [P,H,C,E]. In bytes: `slot` is the distance between slots, `head` the distance between heads,
 * and `used` the size of the part of a head that is in use. `heads` is the number of heads. */
typedef struct {
    char *numbers;
    int64_t slot, heads, head, used;
} Place;

/* For each pair, copies the contents of slot `from` to slot `to`. No slot is in both lists. */
void copy_paths(const Place *places, int64_t count, const int64_t *from, const int64_t *to, int64_t pairs,
                int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t job = 0; job < count * pairs; job++) {
        const Place *place = places + job / pairs;
        const char *source = place->numbers + from[job % pairs] * place->slot;
        char *target = place->numbers + to[job % pairs] * place->slot;
        for (int64_t h = 0; h < place->heads; h++) memcpy(target + h * place->head, source + h * place->head, place->used);
    }
}
