/*
 * ndd_resp.h - what a client of a table service sends, in RESP, the protocol of Redis, and what it is answered: where
 * commands and answers end, before a parser makes anything of them.
 *
 * The rules of ndd.h hold here too. Bytes are read where they are, and nothing is kept.
 */
#ifndef NDD_RESP_H
#define NDD_RESP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* cffi: begin (the binding is made from the lines between the two marks, see native/build_ffi.py) */

/* What is behind the RESP commands that were read. */
typedef enum ndd_read {
    NDD_PART = 0,      /* the begin of one, or nothing; or more of them */
    NDD_OTHER = 1,     /* no array: a line of text, perhaps */
    NDD_EMPTY = 2,     /* an array of no elements, which is no command; before `end` if no command was read */
    NDD_MANY = 3,      /* an array of too many elements */
    NDD_LONG = 4,      /* one with an element that is too long */
    NDD_NO_LENGTH = 5, /* a length that is none */
    NDD_NO_STRING = 6, /* an element that is no bulk string */
} ndd_read;

/* end       how many bytes were read to their end
 * behind    what comes there
 * at, left  how many bytes of it are known, and how many elements of a command follow these */
typedef struct ndd_commands {
    size_t end;
    ndd_read behind;
    size_t at;
    size_t left;
} ndd_commands;

/* Reads RESP commands, arrays of up to `elements` bulk strings (below 10^9); returns how many are whole, `most` at most.
 * One that is not whole may not announce a string of more than `length` bytes. To go on with it, call with its bytes
 * so far and more, and with `at` and `left` as they are; else they are 0. What was known is not read again. */
size_t ndd_commands_read(const uint8_t *bytes, size_t size, size_t most, size_t elements, size_t length,
                         ndd_commands *commands);

#define NDD_ANSWER_DEPTH 4

/* end              how many bytes were read to their end
 * fault            NDD_PART, or what comes there and is no answer, or one beyond the bounds
 * at               how many bytes of the answer there are known
 * depth, left      its open arrays, and how many elements of each follow
 * elements         of all its arrays so far */
typedef struct ndd_answers {
    size_t end;
    ndd_read fault;
    size_t at;
    size_t depth;
    size_t elements;
    size_t left[4];
} ndd_answers;

/* Reads RESP2 answers (texts, errors, integers, bulk strings, arrays of them); returns how many are whole. One has up to
 * `length` bytes and `elements` elements (both below 10^9), arrays up to NDD_ANSWER_DEPTH deep. To go on, call with
 * the bytes from `end` on, and more. */
size_t ndd_answers_read(const uint8_t *bytes, size_t size, size_t elements, size_t length, ndd_answers *answers);

/* cffi: end */

#ifdef __cplusplus
}
#endif

#endif
