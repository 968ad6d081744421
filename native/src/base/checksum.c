#include "base/checksum.h"

#include "base/bytes.h"

#define PRIME_1 UINT64_C(0x9e3779b185ebca87)
#define PRIME_2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define PRIME_3 UINT64_C(0x165667b19e3779f9)
#define PRIME_4 UINT64_C(0x85ebca77c2b2ae63)
#define PRIME_5 UINT64_C(0x27d4eb2f165667c5)
#define STRIPE 32

static uint64_t lane_round(uint64_t lane, uint64_t input) {
    return rotate_left(lane + input * PRIME_2, 31) * PRIME_1;
}

static uint64_t merge_lane(uint64_t sum, uint64_t lane) {
    return (sum ^ lane_round(0, lane)) * PRIME_1 + PRIME_4;
}

uint64_t checksum(const uint8_t *bytes, size_t n) {
    const uint8_t *end = bytes + n;
    uint64_t sum = PRIME_5;
    if (n >= STRIPE) {
        uint64_t a = PRIME_1 + PRIME_2, b = PRIME_2, c = 0, d = 0 - PRIME_1;
        for (; end - bytes >= STRIPE; bytes += STRIPE) {
            a = lane_round(a, load_le(bytes, 8));
            b = lane_round(b, load_le(bytes + 8, 8));
            c = lane_round(c, load_le(bytes + 16, 8));
            d = lane_round(d, load_le(bytes + 24, 8));
        }
        sum = rotate_left(a, 1) + rotate_left(b, 7) + rotate_left(c, 12) + rotate_left(d, 18);
        sum = merge_lane(merge_lane(merge_lane(merge_lane(sum, a), b), c), d);
    }
    sum += n;
    for (; end - bytes >= 8; bytes += 8) {
        sum = rotate_left(sum ^ lane_round(0, load_le(bytes, 8)), 27) * PRIME_1 + PRIME_4;
    }
    if (end - bytes >= 4) {
        sum = rotate_left(sum ^ load_le(bytes, 4) * PRIME_1, 23) * PRIME_2 + PRIME_3;
        bytes += 4;
    }
    for (; bytes < end; bytes++) sum = rotate_left(sum ^ *bytes * PRIME_5, 11) * PRIME_1;
    sum = (sum ^ sum >> 33) * PRIME_2;
    sum = (sum ^ sum >> 29) * PRIME_3;
    return sum ^ sum >> 32;
}
