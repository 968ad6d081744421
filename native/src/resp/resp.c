/* RESP: finds where commands and answers end. */
#include <string.h>

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

#define LINE 4096 /* bytes of a text, an error or an integer */

/* One element of an answer at *at: a whole one, or the head of an array, whose elements go to *array. *at stays where more
 * bytes are needed. */
static ndd_read answer_element(const uint8_t *bytes, size_t size, size_t length, size_t *at, int64_t *array) {
    size_t before = *at;
    int64_t number = 0;
    *array = 0;
    switch (bytes[before]) {
    case '+':
    case '-':
    case ':': {
        const uint8_t *end = memchr(bytes + before, '\n', size - before);
        if (end == NULL) return size - before > LINE ? NDD_LONG : NDD_PART;
        *at = (size_t)(end - bytes) + 1;
        return *at - before > LINE ? NDD_LONG : NDD_PART;
    }
    case '*': return number_line(bytes, size, at, '*', array);
    case '$': {
        ndd_read fault = number_line(bytes, size, at, '$', &number);
        if (fault != NDD_PART || *at == before || number < 0) return fault;
        if ((size_t)number > length) return NDD_LONG;
        if (size - *at < (size_t)number + 2) {
            *at = before;
        } else {
            *at += (size_t)number + 2;
        }
        return NDD_PART;
    }
    default: return NDD_OTHER;
    }
}

size_t ndd_answers_read(const uint8_t *bytes, size_t size, size_t elements, size_t length, ndd_answers *answers) {
    size_t at = answers->at, end = 0, count = 0;
    ndd_read fault = NDD_PART;
    while (at < size) {
        size_t before = at;
        int64_t array = 0;
        fault = answer_element(bytes, size, length, &at, &array);
        if (fault == NDD_PART && (at == before ? size : at) - end > length) fault = NDD_LONG;
        if (fault != NDD_PART || at == before) break;
        if (array > 0) {
            if (answers->depth == NDD_ANSWER_DEPTH || (size_t)array > elements - answers->elements) {
                fault = NDD_MANY;
                break;
            }
            answers->elements += (size_t)array;
            answers->left[answers->depth++] = (size_t)array;
            continue;
        }
        while (answers->depth > 0 && --answers->left[answers->depth - 1] == 0) answers->depth--;
        if (answers->depth == 0) {
            answers->elements = 0;
            end = at;
            count++;
        }
    }
    answers->end = end;
    answers->fault = fault;
    answers->at = at - end;
    return count;
}
