/*
 * Text becomes tokens (docs/reference/fingerprint-spec.md, "Tokens"), and tokens gather in blocks.
 *
 * A word is a run of letters, marks and numbers, in lower case; scripts that are written without
 * spaces give every pair of neighbouring characters instead. Tags within a line do not end a word;
 * what does, calls words_break(). A word longer than TOKEN_BYTES is cut into pieces of that size,
 * so memory stays bounded.
 */
#include <string.h>

#include "base/bytes.h"
#include "reader/characters.h"
#include "base/chunk.h"
#include "hash/hash.h"
#include "reader/reading.h"

/* Tokens are hashed where they stand, with 16 bytes to spare behind them. */
#define TOKEN_BYTES 128

#define COPYRIGHT_SIGN 0xa9

#define TITLE_BYTES 1024 /* a longer title counts by its beginning */

/* For an ASCII byte that belongs to words its lower case, for any other byte 0. */
static const uint8_t ascii_word[256] = {
    ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4', ['5'] = '5', ['6'] = '6',
    ['7'] = '7', ['8'] = '8', ['9'] = '9', ['_'] = '_', ['A'] = 'a', ['B'] = 'b', ['C'] = 'c',
    ['D'] = 'd', ['E'] = 'e', ['F'] = 'f', ['G'] = 'g', ['H'] = 'h', ['I'] = 'i', ['J'] = 'j',
    ['K'] = 'k', ['L'] = 'l', ['M'] = 'm', ['N'] = 'n', ['O'] = 'o', ['P'] = 'p', ['Q'] = 'q',
    ['R'] = 'r', ['S'] = 's', ['T'] = 't', ['U'] = 'u', ['V'] = 'v', ['W'] = 'w', ['X'] = 'x',
    ['Y'] = 'y', ['Z'] = 'z', ['a'] = 'a', ['b'] = 'b', ['c'] = 'c', ['d'] = 'd', ['e'] = 'e',
    ['f'] = 'f', ['g'] = 'g', ['h'] = 'h', ['i'] = 'i', ['j'] = 'j', ['k'] = 'k', ['l'] = 'l',
    ['m'] = 'm', ['n'] = 'n', ['o'] = 'o', ['p'] = 'p', ['q'] = 'q', ['r'] = 'r', ['s'] = 's',
    ['t'] = 't', ['u'] = 'u', ['v'] = 'v', ['w'] = 'w', ['x'] = 'x', ['y'] = 'y', ['z'] = 'z'};

static void keep_word(struct ndd_reader *reader, const uint8_t *token, size_t n) {
    if (!NDD_ROOM(reader, reader->words_kept, n + 1)) return;
    uint8_t *to = reader->words_kept.at + reader->words_kept.n;
    memcpy(to, token, n);
    to[n] = ' ';
    reader->words_kept.n += n + 1;
}

static int has_digit(const uint8_t *token, size_t n) {
    size_t i = 0;
#ifdef NDD_CHUNKS
    uint32_t found = 0;
    for (;; i += NDD_CHUNK_BYTES) { /* 16 bytes may be read behind a token */
        uint32_t digits = chunk_bits(chunk_within(chunk_at(token + i), '0', 10));
        if (n - i <= NDD_CHUNK_BYTES) return (found | (digits & ((2u << (n - i - 1)) - 1))) != 0;
        found |= digits;
    }
#else
    for (; i < n; i++) if (is_ascii_digit(token[i])) return 1;
    return 0;
#endif
}

/* Whether a word character above ASCII is a digit (docs/reference/fingerprint-spec.md, "Parts"). */
static int is_other_digit(uint32_t code) {
    static const uint32_t zeros[] = {0x660, 0x6f0, 0x966, 0x9e6, 0xff10};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) if (code - zeros[i] < 10) return 1;
    return 0;
}

/* Notes which of the tokens that are added next have a digit, if any has: a bit for each byte of words, and of those
 * that are digits. No branch depends on it, for numbers come as they like. */
static inline void note_digits(struct ndd_reader *reader, uint64_t words, uint64_t digits) {
    if (!NDD_ROOM(reader, reader->digits, 1)) return;
    uint64_t first = reader->tokens.n;
    reader->digits.at[reader->digits.n] = (struct digits){words | first << 48, digits | first >> 16 << 48};
    reader->digits.n += digits != 0;
}

static int open_block(struct ndd_reader *reader, uint32_t context) {
    if (!NDD_ROOM(reader, reader->blocks, 1)) return 0;
    struct block *opened = &reader->blocks.at[reader->blocks.n++];
    memset(opened, 0, sizeof *opened);
    opened->first_token = (uint32_t)reader->tokens.n;
    opened->context = context | reader->notice;
    opened->main = reader->mains;
    reader->notice = 0;
    opened->first_word = reader->words_kept.n;
    opened->bytes = reader->text_bytes;
    reader->link_tokens = 0;
    reader->in_block = 1;
    return 1;
}

/* Adds a token of n bytes by its hash; 0 without memory. */
static inline int add_hash(struct ndd_reader *reader, uint64_t hash, size_t n, uint32_t context) {
    if (!NDD_ROOM(reader, reader->tokens, 1)) return 0;
    if (!reader->in_block && !open_block(reader, context)) return 0;
    reader->text_bytes += n;
    reader->link_tokens += context / IN_LINK & 1;
    reader->tokens.at[reader->tokens.n++] = hash;
    return 1;
}

/* Adds a token of up to 8 bytes, which stand in a number, the first lowest. */
static inline void add_packed(struct ndd_reader *reader, uint64_t bytes, uint32_t n, uint32_t context) {
    ndd_key key = reader->key;
    uint64_t hash = hash_last(bytes, 0, n, key.k0 ^ NDD_HASH_C0, key.k1 ^ NDD_HASH_C1, n);
    if (add_hash(reader, hash, n, context) && reader->keep_words) {
        uint8_t token[8];
        for (uint32_t i = 0; i < n; i++) token[i] = (uint8_t)(bytes >> 8 * i);
        keep_word(reader, token, n);
    }
}

static void end_word(struct ndd_reader *reader) {
    if (reader->token_length > 0) {
        size_t n = reader->token_length;
        uint64_t hash = hash_token_padded(reader->token, n, reader->key);
        reader->token_length = 0;
        note_digits(reader, 1, (uint64_t)(reader->token_number | has_digit(reader->token, n)));
        reader->token_number = 0;
        if (add_hash(reader, hash, n, reader->token_context) && reader->keep_words) {
            keep_word(reader, reader->token, n);
        }
    }
}

static void end_run(struct ndd_reader *reader) {
    if (reader->run == 1) { /* a run of one character is a token of its own */
        add_packed(reader, reader->before, reader->before_length, reader->token_context);
    }
    reader->run = 0;
}

void words_break(struct ndd_reader *reader) {
    if ((reader->token_length | reader->run) == 0) return;
    end_word(reader);
    end_run(reader);
}

void words_end_block(struct ndd_reader *reader) {
    words_break(reader);
    reader->notice = 0;
    if (!reader->in_block) return;
    struct block *ended = &reader->blocks.at[reader->blocks.n - 1];
    ended->tokens = (uint32_t)reader->tokens.n - ended->first_token;
    ended->link_tokens = reader->link_tokens;
    ended->bytes = reader->text_bytes - ended->bytes;
    ended->end_word = reader->words_kept.n;
    reader->in_block = 0;
}

static inline void add_character(struct ndd_reader *reader, struct character character) {
    uint32_t n, bytes = character_bytes(character.lower, &n);
    switch (character.kind) {
    case CHARACTER_WORD:
        end_run(reader);
        if (reader->token_length + n > TOKEN_BYTES) end_word(reader);
        if (reader->token_length == 0) reader->token_context = reader->context;
        store4_le(reader->token + reader->token_length, bytes);
        reader->token_length += n;
        if (character.lower >= 0x660 && is_other_digit(character.lower)) reader->token_number = 1;
        break;
    case CHARACTER_SPACELESS:
        end_word(reader);
        if (reader->run == 0) {
            reader->token_context = reader->context;
        } else {
            uint64_t pair = reader->before | (uint64_t)bytes << 8 * reader->before_length;
            add_packed(reader, pair, reader->before_length + n, reader->context);
        }
        reader->before = bytes;
        reader->before_length = n;
        if (reader->run < 2) reader->run++;
        break;
    case CHARACTER_IGNORED:
        break;
    default: /* a byte that is no character takes 1; none else does that comes here */
        reader->invalid_bytes += character.taken == 1;
        words_break(reader);
        if (character.lower == COPYRIGHT_SIGN) {
            if (reader->in_block) reader->blocks.at[reader->blocks.n - 1].context |= IN_NOTICE;
            else reader->notice = IN_NOTICE;
        }
    }
}

/* A run of ASCII word characters, the common case. */
static const uint8_t *ascii_run(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end) {
    end_run(reader);
    if (reader->token_length == 0) reader->token_context = reader->context;
    uint32_t length = reader->token_length;
    uint8_t lower;
    while (at < end && (lower = ascii_word[*at]) != 0) {
        if (length == TOKEN_BYTES) {
            reader->token_length = length;
            end_word(reader);
            reader->token_context = reader->context;
            length = 0;
        }
        reader->token[length++] = lower;
        at++;
    }
    reader->token_length = length;
    return at;
}

/* A run of characters that are not ASCII. */
static const uint8_t *other_run(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end) {
    do {
        struct character character = character_at(at, end);
        add_character(reader, character);
        at += character.taken;
    } while (at < end && *at >= 0x80);
    return at;
}

#ifdef NDD_CHUNKS
/* Words of up to 16 bytes are hashed where they stand, without a copy: nearly all are that short.
 * Called between words; returns at the first byte that needs a closer look (with the word that
 * touches it begun), behind a long word, or near the end of the page. */
static const uint8_t *short_words(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end) {
    const uint64_t low_key = reader->key.k0 ^ NDD_HASH_C0, high_key = reader->key.k1 ^ NDD_HASH_C1;
    while (end - at >= NDD_TEXT_BYTES + NDD_CHUNK_BYTES) {
        struct text_bits text = text_at(at);
        uint32_t stop = lowest_bit(text.stops | UINT64_C(1) << NDD_TEXT_BYTES);
        uint64_t words = text.words & ((UINT64_C(1) << stop) - 1), all = words;
        if (words == 0) {
            at += stop;
            if (stop < NDD_TEXT_BYTES) return at;
            continue;
        }
        if (!NDD_ROOM(reader, reader->tokens, NDD_TEXT_BYTES / 2)) return end;
        if (!reader->in_block && !open_block(reader, reader->context)) return end;
        uint64_t *token = reader->tokens.at + reader->tokens.n, *first = token;
        uint32_t start, length;
        size_t bytes = 0;
        for (;;) {
            start = lowest_bit(words | UINT64_C(1) << NDD_TEXT_BYTES);
            length = lowest_bit(~(words >> start));
            if (start + length >= stop || length > NDD_CHUNK_BYTES) break;
            uint64_t low, high;
            chunk_halves(chunk_lower(chunk_at(at + start)), &low, &high);
            *token++ = hash_last(low, high, length, low_key, high_key, length);
            bytes += length;
            words &= ~UINT64_C(0) << (start + length);
        }
        note_digits(reader, all, text.digits & all & ((UINT64_C(1) << start) - 1));
        reader->text_bytes += bytes;
        reader->tokens.n += (size_t)(token - first);
        if (reader->context & IN_LINK) reader->link_tokens += (uint32_t)(token - first);
        if (start >= stop) { /* no word left */
            at += stop;
            if (stop < NDD_TEXT_BYTES) return at;
        } else if (length > NDD_CHUNK_BYTES) {
            return ascii_run(reader, at + start, end);
        } else if (stop < NDD_TEXT_BYTES) { /* the last word touches what stopped it */
            reader->token_context = reader->context;
            reader->token_length = length;
            chunk_store(reader->token, chunk_lower(chunk_at(at + start)));
            return at + stop;
        } else { /* it goes on in the next bytes: from its beginning */
            at += start;
        }
    }
    return at;
}
#else
static const uint8_t *short_words(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end) {
    return (void)reader, (void)end, at;
}
#endif

/* Whether short_words() can go on here, where an ASCII character stands that is no stop. */
static inline int takes_short_words(const struct ndd_reader *reader, const uint8_t *at, const uint8_t *end) {
#ifdef NDD_CHUNKS
    return !(reader->token_length | reader->run) && !reader->keep_words && end - at >= NDD_TEXT_BYTES + NDD_CHUNK_BYTES;
#else
    (void)reader, (void)at, (void)end;
    return 0;
#endif
}

const uint8_t *words_html(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        uint8_t c = *at;
        if (c == '<') {
            return at;
        } else if (c >= 0x80) {
            at = other_run(reader, at, end);
        } else if (c == '&') {
            uint32_t codes[2];
            size_t n = character_reference(at, end, 0, codes);
            if (n == 0) {
                words_break(reader);
                at++;
            } else {
                add_character(reader, character_of(codes[0]));
                if (codes[1] != 0) add_character(reader, character_of(codes[1]));
                at += n;
            }
        } else if (takes_short_words(reader, at, end)) {
            at = short_words(reader, at, end);
        } else if (ascii_word[c] != 0) {
            at = ascii_run(reader, at, end);
        } else {
            words_break(reader);
            at++;
        }
    }
    return at;
}

void words_plain(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        if (*at >= 0x80) {
            at = other_run(reader, at, end);
        } else if (ascii_word[*at] == 0) {
            words_break(reader);
            at++;
        } else if (takes_short_words(reader, at, end)) {
            at = short_words(reader, at, end);
        } else {
            at = ascii_run(reader, at, end);
        }
    }
}

void words_block(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end, uint32_t context) {
    const uint32_t around = reader->context;
    words_end_block(reader);
    reader->context = context;
    while (at < end && reader->status == NDD_OK) {
        at = words_html(reader, at, end);
        words_break(reader);
        at += at < end; /* past a '<' */
    }
    words_end_block(reader);
    reader->context = around;
}

void words_end_unless(struct ndd_reader *reader, int drawn) {
    words_break(reader);
    if (!reader->in_block) return;
    int is_drawn = (reader->blocks.at[reader->blocks.n - 1].context & IN_DRAWN) != 0;
    if (is_drawn != drawn) words_end_block(reader);
}

/* A title may occur inside a block: the counts of the page's text are restored afterwards. */
void words_title(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end) {
    const size_t tokens = reader->tokens.n, blocks = reader->blocks.n, digits = reader->digits.n;
    const size_t words_kept = reader->words_kept.n;
    const uint64_t text_bytes = reader->text_bytes, invalid_bytes = reader->invalid_bytes;
    const uint32_t link_tokens = reader->link_tokens, context = reader->context, notice = reader->notice;
    const int in_block = reader->in_block;
    reader->in_block = 0;
    reader->context = 0;
    if (end - at > TITLE_BYTES) end = at + TITLE_BYTES;
    while (at < end && reader->status == NDD_OK) {
        at = words_html(reader, at, end);
        words_break(reader);
        at += at < end; /* past a '<', which is text in a title */
    }
    words_break(reader);
    size_t n = reader->tokens.n - tokens;
    if (n > 0 && NDD_ROOM(reader, reader->title_tokens, n)) {
        memcpy(reader->title_tokens.at, reader->tokens.at + tokens, n * sizeof *reader->tokens.at);
        reader->title_tokens.n = n;
    }
    reader->tokens.n = tokens;
    reader->blocks.n = blocks;
    reader->digits.n = digits;
    reader->words_kept.n = words_kept;
    reader->text_bytes = text_bytes;
    reader->invalid_bytes = invalid_bytes;
    reader->link_tokens = link_tokens;
    reader->context = context;
    reader->notice = notice;
    reader->in_block = in_block;
}
