#include "table/numbers.h"

#include <assert.h>
#include <stdlib.h>

#include "base/bits.h"
#include "hash/hash.h"

#define WITHOUT_MAP 8 /* up to so few numbers a scan is faster than the map */

static uint64_t numbers_hash(const struct numbers *numbers, uint64_t number) {
    return hash_mix(number ^ numbers->seed);
}

static uint32_t map_home(const struct numbers *numbers, uint64_t hash) {
    return (uint32_t)((hash >> 32) * numbers->map_size >> 32);
}

static uint32_t map_next(const struct numbers *numbers, uint32_t at) {
    return at + 1 == numbers->map_size ? 0 : at + 1;
}

static uint32_t entry_place(const struct numbers *numbers, uint32_t entry) {
    return (entry & ((UINT32_C(1) << numbers->place_bits) - 1)) - 1;
}

/* The entry of a number, 0 aside: the low half of the hash, which the home does not use. */
static uint32_t entry_of(const struct numbers *numbers, uint64_t hash, uint32_t place) {
    return (uint32_t)hash << numbers->place_bits | (place + 1);
}

void numbers_open(struct numbers *numbers) {
    *numbers = (struct numbers){0};
    /* Pages come from strangers, who must not be able to choose numbers that share a home: the address
     * differs from run to run. It decides where an entry lies, never what is found. */
    numbers->seed = hash_mix((uint64_t)(uintptr_t)numbers);
}

void numbers_close(struct numbers *numbers) {
    free(numbers->items);
    memory_close(&numbers->map);
    *numbers = (struct numbers){0};
}

/* Where in the map the entry of the number at a place is. */
static uint32_t map_find_place(const struct numbers *numbers, uint32_t place) {
    const uint32_t *map = numbers->map.at;
    uint64_t hash = numbers_hash(numbers, numbers->items[place]);
    uint32_t wanted = entry_of(numbers, hash, place);
    uint32_t at = map_home(numbers, hash);
    while (map[at] != wanted) at = map_next(numbers, at);
    return at;
}

int numbers_find(const struct numbers *numbers, uint64_t number, uint32_t *place) {
    const uint32_t *map = numbers->map.at;
    if (map == NULL) {
        for (uint32_t i = 0; i < numbers->count; i++) {
            if (numbers->items[i] == number) {
                *place = i;
                return 1;
            }
        }
        return 0;
    }
    uint64_t hash = numbers_hash(numbers, number);
    uint32_t tag = (uint32_t)hash << numbers->place_bits;
    for (uint32_t at = map_home(numbers, hash); map[at] != 0; at = map_next(numbers, at)) {
        if ((map[at] ^ tag) >> numbers->place_bits != 0) continue;
        uint32_t found = entry_place(numbers, map[at]);
        if (numbers->items[found] == number) {
            *place = found;
            return 1;
        }
    }
    return 0;
}

void numbers_prefetch(const struct numbers *numbers, uint64_t number) {
    const uint32_t *map = numbers->map.at;
    if (map != NULL) prefetch(&map[map_home(numbers, numbers_hash(numbers, number))]);
}

uint32_t numbers_guess(const struct numbers *numbers, uint64_t number) {
    const uint32_t *map = numbers->map.at;
    if (map == NULL) return NDD_NUMBERS_MAX;
    uint64_t hash = numbers_hash(numbers, number);
    uint32_t tag = (uint32_t)hash << numbers->place_bits;
    for (uint32_t at = map_home(numbers, hash); map[at] != 0; at = map_next(numbers, at)) {
        if ((map[at] ^ tag) >> numbers->place_bits != 0) continue;
        uint32_t place = entry_place(numbers, map[at]);
        prefetch(&numbers->items[place]);
        return place;
    }
    return NDD_NUMBERS_MAX;
}

static void map_put(struct numbers *numbers, uint32_t place) {
    uint32_t *map = numbers->map.at;
    uint64_t hash = numbers_hash(numbers, numbers->items[place]);
    uint32_t at = map_home(numbers, hash);
    while (map[at] != 0) at = map_next(numbers, at);
    map[at] = entry_of(numbers, hash, place);
}

ndd_status numbers_reserve(struct numbers *numbers, uint64_t capacity) {
    if (capacity <= numbers->capacity) return NDD_OK;
    if (capacity > NDD_NUMBERS_MAX) return NDD_TOO_LARGE;
    if (capacity > SIZE_MAX / 16) return NDD_NO_MEMORY;
    uint64_t *items = realloc(numbers->items, (size_t)capacity * sizeof *items);
    if (items == NULL) return NDD_NO_MEMORY;
    numbers->items = items;
    if (capacity > WITHOUT_MAP) {
        struct memory map;
        uint32_t map_size = (uint32_t)(capacity + capacity / 4); /* at most four fifths full */
        if (!memory_open(&map, (size_t)map_size * sizeof(uint32_t))) return NDD_NO_MEMORY;
        memory_close(&numbers->map);
        numbers->map = map;
        numbers->map_size = map_size;
        numbers->place_bits = 0;
        while (capacity >> numbers->place_bits != 0) numbers->place_bits++;
        for (uint32_t i = 0; i < numbers->count; i++) {
            if (numbers->count - i > 16) numbers_prefetch(numbers, items[i + 16]);
            map_put(numbers, i);
        }
    }
    numbers->capacity = (uint32_t)capacity;
    return NDD_OK;
}

ndd_status numbers_make_room(struct numbers *numbers) {
    if (numbers->count < numbers->capacity) return NDD_OK;
    uint64_t capacity = (uint64_t)numbers->capacity + numbers->capacity / 2 + 4;
    if (capacity > NDD_NUMBERS_MAX && numbers->count < NDD_NUMBERS_MAX) capacity = NDD_NUMBERS_MAX;
    return numbers_reserve(numbers, capacity);
}

void numbers_append(struct numbers *numbers, uint64_t number) {
    assert(numbers->count < numbers->capacity); /* the caller made room */
    numbers->items[numbers->count] = number;
    if (numbers->map.at != NULL) map_put(numbers, numbers->count);
    numbers->count++;
}

void numbers_remove(struct numbers *numbers, uint32_t place) {
    uint32_t last = numbers->count - 1;
    uint32_t *map = numbers->map.at;
    if (map != NULL) {
        /* Close the gap: an entry after it moves back, unless its home lies after the gap. */
        uint32_t gap = map_find_place(numbers, place), size = numbers->map_size;
        for (uint32_t at = map_next(numbers, gap); map[at] != 0; at = map_next(numbers, at)) {
            uint64_t number = numbers->items[entry_place(numbers, map[at])];
            uint32_t home = map_home(numbers, numbers_hash(numbers, number));
            uint32_t from_home = at >= home ? at - home : at + (size - home);
            uint32_t from_gap = at >= gap ? at - gap : at + (size - gap);
            if (from_home >= from_gap) {
                map[gap] = map[at];
                gap = at;
            }
        }
        map[gap] = 0;
        if (place != last) {
            uint64_t hash = numbers_hash(numbers, numbers->items[last]);
            map[map_find_place(numbers, last)] = entry_of(numbers, hash, place);
        }
    }
    numbers->items[place] = numbers->items[last];
    numbers->count = last;
}

uint64_t numbers_bytes(const struct numbers *numbers) {
    return (uint64_t)numbers->capacity * sizeof(uint64_t) + numbers->map.bytes;
}

const char *numbers_validate(const struct numbers *numbers) {
    const uint32_t *map = numbers->map.at;
    if (numbers->count > numbers->capacity) return "more numbers than there is room for";
    if (map == NULL && numbers->capacity > WITHOUT_MAP) return "a large set has no map";
    for (uint32_t i = 0; i < numbers->count; i++) {
        uint32_t place;
        if (numbers->count - i > 16) numbers_prefetch(numbers, numbers->items[i + 16]);
        if (!numbers_find(numbers, numbers->items[i], &place)) return "a number is not in the map";
        if (place != i) return "a number stands twice";
    }
    uint64_t entries = 0;
    for (uint32_t i = 0; i < numbers->map_size; i++) entries += map[i] != 0;
    if (map != NULL && entries != numbers->count) return "the map holds more than the numbers";
    return NULL;
}
