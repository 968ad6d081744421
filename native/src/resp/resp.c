/* RESP: finds where commands end. */
#include "base/bytes.h"
#include "ndd_resp.h"

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
