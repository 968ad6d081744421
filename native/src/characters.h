/* Characters: UTF-8 in and out, their classes and lower case, and HTML's character references. */
#ifndef NDD_CHARACTERS_H
#define NDD_CHARACTERS_H

#include "ndd.h"

enum { CHARACTER_SEPARATOR, CHARACTER_WORD, CHARACTER_SPACELESS, CHARACTER_IGNORED };

#define NOT_A_CHARACTER UINT32_C(0xfffd)

/* The class of a code point; *lower is the code point in lower case. */
int character_class(uint32_t code, uint32_t *lower);

/* Reads one code point of strict UTF-8 (RFC 3629). Returns the bytes it took; a byte that begins
 * no valid sequence takes 1 and gives NOT_A_CHARACTER. at < end. */
size_t character_read(const uint8_t *at, const uint8_t *end, uint32_t *code);

/* Writes a code point as UTF-8 and returns how many bytes it took, 1 to 4. */
size_t character_write(uint32_t code, uint8_t *to);

/* Reads the character reference at '&'. Returns the bytes it took and its one or two code points
 * (the second 0 when there is one), or 0 when the '&' stands for itself. in_attribute: a name
 * without semicolon that goes on as a word or with '=' is none (HTML, 13.2.5.73). */
size_t character_reference(const uint8_t *at, const uint8_t *end, int in_attribute,
                           uint32_t codes[2]);

#endif
