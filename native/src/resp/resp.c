/* RESP: finds where commands end, and reads the probes that repeat one form with other numbers. */
#include <string.h>

#include "base/bytes.h"
#include "ndd_resp.h"

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

/* The line "<sign>number\r\n" at *at: its number goes to *number, and *at behind it. NDD_OTHER where another sign is. */
static ndd_read number_line(const uint8_t *bytes, size_t size, size_t *at, uint8_t sign, int64_t *number) {
    size_t i = *at;
    if (i >= size) return NDD_PART;
    if (bytes[i++] != sign) return NDD_OTHER;
    int is_negative = i < size && bytes[i] == '-';
    i += (size_t)is_negative;
    size_t first = i;
    int64_t found = 0;
    for (; i < size && i - first < 9 && is_ascii_digit(bytes[i]); i++) found = found * 10 + (bytes[i] - '0');
    if (i - first > 1 && bytes[first] == '0') return NDD_NO_LENGTH;
    if (i < size && (i == first || bytes[i] != '\r')) return NDD_NO_LENGTH;
    if (size - i < 2) return NDD_PART;
    if (bytes[i + 1] != '\n') return NDD_NO_LENGTH;
    *number = is_negative ? -found : found;
    *at = i + 2;
    return NDD_PART;
}

size_t ndd_commands_read(const uint8_t *bytes, size_t size, size_t most, size_t elements, size_t length,
                         ndd_commands *commands) {
    size_t at = commands->at, left = commands->left, end = 0, count = 0;
    ndd_read behind = NDD_PART;
    while (count < most) {
        size_t before = at;
        int64_t number = 0;
        behind = number_line(bytes, size, &at, left > 0 ? '$' : '*', &number);
        if (behind != NDD_PART || at == before) break;
        if (left == 0) {
            if (number > 0 && number <= (int64_t)elements) {
                left = (size_t)number;
                continue;
            }
            behind = number > 0 ? NDD_MANY : NDD_EMPTY;
            if (behind == NDD_EMPTY && count == 0) {
                end = at;
            } else {
                at = before;
            }
            break;
        }
        if (number < 0 || size - at < 2 || (size_t)number > size - at - 2) {
            if (number < 0 || (size_t)number > length) behind = number < 0 ? NDD_NO_LENGTH : NDD_LONG;
            at = before;
            break;
        }
        at += (size_t)number + 2; /* Redis does not look at these two either */
        if (--left == 0) {
            end = at;
            count++;
        }
    }
    *commands = (ndd_commands){
        .end = end,
        .behind = behind == NDD_OTHER && left > 0 ? NDD_NO_STRING : behind,
        .at = at - end,
        .left = left,
    };
    return count;
}
