#include "design/design_cut.h"

#include <float.h>

double binomial(uint32_t n, uint32_t k) {
    double ways = 1;
    for (uint32_t i = 0; i < k; i++) ways = ways * (n - i) / (i + 1);
    return ways;
}

uint32_t design_best_cut(const struct options *options, uint32_t width, uint32_t k,
                         struct cut cuts[NDD_MAX_DISTANCE + 1], double *cost) {
    /* least[u][b]: to cover u units, t + 1 for each block, with b bits */
    double least[NDD_MAX_DISTANCE + 2][NDD_VALUE_BITS + 1];
    struct cut taken[NDD_MAX_DISTANCE + 2][NDD_VALUE_BITS + 1];
    for (uint32_t b = 0; b <= width; b++) least[0][b] = 0;
    for (uint32_t u = 1; u <= k + 1; u++) {
        for (uint32_t b = 0; b <= width; b++) {
            least[u][b] = DBL_MAX;
            for (uint32_t t = 0; t <= NDD_MAX_THRESHOLD && t < u; t++) {
                for (uint32_t w = 1; w <= b; w++) {
                    double rest = least[u - t - 1][b - w], one = options->of[w][t].cost;
                    if (rest < DBL_MAX && one < DBL_MAX && rest + one < least[u][b]) {
                        least[u][b] = rest + one;
                        taken[u][b] = (struct cut){w, t};
                    }
                }
            }
        }
    }
    *cost = least[k + 1][width];
    if (*cost == DBL_MAX) return 0;
    uint32_t count = 0;
    for (uint32_t u = k + 1, b = width; u > 0;) {
        struct cut cut = taken[u][b];
        cuts[count++] = cut;
        u -= cut.threshold + 1;
        b -= cut.width;
    }
    return count;
}
