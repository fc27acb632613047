/* Paths copied from slot to slot: one call for all keys and values of a model, and nothing in between. */
#include "native.h"

/* Where the tokens of all slots lie [P,H,C,E], in bytes: from slot to slot, from head to head, and how much of a head
 * is in use. */
typedef struct {
    char *numbers;
    int64_t slot, heads, head, used;
} Place;

/* For each pair, what slot `from` holds goes to slot `to`; no slot is in both lists. */
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
