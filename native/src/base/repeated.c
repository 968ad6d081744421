/* What a client sends: commands, and records of one form, as it repeats a command with other numbers. */
#include <string.h>

#include "base/bytes.h"
#include "ndd.h"

#define WORD 16 /* hex digits of a number */

static inline uint32_t hex_digit(uint8_t c) {
    return is_ascii_digit(c) ? (uint32_t)(c - '0') : (uint32_t)((c | 0x20) - 'a' + 10);
}

static inline int is_hex(uint8_t c) {
    return is_ascii_digit(c) | ((uint8_t)((c | 0x20) - 'a') < 6);
}

static int are_hex(const uint8_t *bytes, size_t n) {
    int are = 1;
    for (size_t i = 0; i < n; i++) are &= is_hex(bytes[i]);
    return are;
}

size_t ndd_repeated_read(const uint8_t *bytes, size_t size, const uint8_t *form, size_t length,
                         size_t word_at, size_t digits_at, size_t digits, uint64_t *words, size_t most) {
    size_t between = word_at + WORD, behind = digits_at + digits, count = 0;
    if (word_at > length || between > digits_at || digits_at > length || digits > length - digits_at) return 0;
    for (; count < most && length > 0 && length <= size - count * length; count++) {
        const uint8_t *record = bytes + count * length;
        if (memcmp(record, form, word_at) != 0 ||
            memcmp(record + between, form + between, digits_at - between) != 0 ||
            memcmp(record + behind, form + behind, length - behind) != 0 ||
            !are_hex(record + word_at, WORD) || !are_hex(record + digits_at, digits)) {
            break;
        }
        uint64_t word = 0;
        for (size_t i = 0; i < WORD; i++) word = word << 4 | hex_digit(record[word_at + i]);
        words[count] = word;
    }
    return count;
}

/* The number of a line "<sign>digits\r\n", and in *at where the next line begins; SIZE_MAX if it is none. */
static size_t length_line(const uint8_t *bytes, size_t size, size_t *at, uint8_t sign) {
    size_t i = *at, first = i + 1, length = 0;
    if (i >= size || bytes[i] != sign) return SIZE_MAX;
    for (i = first; i < size && i - first < 9 && is_ascii_digit(bytes[i]); i++) {
        length = length * 10 + (size_t)(bytes[i] - '0');
    }
    if (i == first || size - i < 2 || bytes[i] != '\r' || bytes[i + 1] != '\n') return SIZE_MAX;
    *at = i + 2;
    return length;
}

size_t ndd_whole_commands(const uint8_t *bytes, size_t size, size_t most) {
    size_t at = 0, count = 0;
    for (; at < size; count++) {
        size_t elements = length_line(bytes, size, &at, '*');
        if (elements == 0 || elements == SIZE_MAX || elements > most) return 0;
        for (; elements > 0; elements--) {
            size_t length = length_line(bytes, size, &at, '$');
            if (length == SIZE_MAX || size - at < 2 || length > size - at - 2) return 0;
            at += length + 2;
            if (bytes[at - 2] != '\r' || bytes[at - 1] != '\n') return 0;
        }
    }
    return count;
}
