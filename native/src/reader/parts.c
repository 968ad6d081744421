/*
 * What two pages of similar text may differ in (docs/reference/fingerprint-spec.md, "Parts"): eight hashes of 32
 * bits, of the
 * inline data, the sources of images and frames, the data attributes, the first headings, the words with digits of the
 * main text, the text beside it, other attributes, and the template: a price, a picture, a rating.
 *
 * Each is the hash of a sequence, which is summed up while the page is read: nothing is kept of what it consists of.
 */
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "hash/hash.h"
#include "reader/reading.h"

static uint64_t join(uint64_t sum, uint64_t hash) { return sum * NDD_HASH_C0 + hash; }

uint32_t parts_number(uint64_t sum) {
    uint32_t number = (uint32_t)(hash_mix(sum) >> 32);
    return number != 0 || sum == 0 ? number : 1;
}

/* The token hash of bytes within the page. */
static uint64_t hash_within(const uint8_t *bytes, size_t n, ndd_key key, const uint8_t *page_end) {
    return page_end - bytes - (ptrdiff_t)n >= 16 ? hash_token_padded(bytes, n, key) : ndd_hash_token(bytes, n, key);
}

/* ---------------------------------------------------------------------------- while the page is read */

/* Whether a script begins by giving the page's state a name: window.__NUXT__ = and its like. */
static int is_state(const uint8_t *at, const uint8_t *end) {
    while (at < end && is_html_space(*at)) at++;
    if (end - at >= 9 && memcmp(at, "window.__", 9) == 0) return 1;
    return end - at >= 7 && memcmp(at, "self.__", 7) == 0;
}

void parts_data(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end, int is_data, const uint8_t *page_end) {
    if (!is_data && !is_state(at, end)) return;
    reader->parts.data = join(reader->parts.data, hash_within(at, (size_t)(end - at), reader->key, page_end));
}

void parts_source(struct ndd_reader *reader, const uint8_t *src, size_t n, const uint8_t *page_end) {
    if (n == 0 || (n > 4 && src[4] == ':' && (load4_le(src) | 0x20202020) == 0x61746164)) return; /* "data:" */
    reader->parts.sources = join(reader->parts.sources, hash_within(src, n, reader->key, page_end));
}

static int is(const uint8_t *name, size_t n, const char *word) {
    return strlen(word) == n && memcmp(name, word, n) == 0;
}

/* Attributes that change from visit to visit, behind "data-". */
static int is_volatile_attribute(const uint8_t *name, size_t n) {
    switch (n) {
    case 3:
        return is(name, n, "sid");
    case 4:
        return is(name, n, "csrf");
    case 5:
        return is(name, n, "nonce") || is(name, n, "token");
    case 7:
        return is(name, n, "session") || is(name, n, "cfemail");
    case 10:
        return is(name, n, "csrf-token") || is(name, n, "session-id");
    default:
        return 0;
    }
}

void parts_attribute(struct ndd_reader *reader, const uint8_t *name, const uint8_t *end, const uint8_t *page_end) {
    uint64_t hash = hash_within(name, (size_t)(end - name), reader->key, page_end);
    reader->parts.attributes = join(reader->parts.attributes, hash);
}

void parts_data_attribute(struct ndd_reader *reader, const uint8_t *name, size_t n, const uint8_t *end,
                          const uint8_t *page_end) {
    if (is_volatile_attribute(name + 5, n - 5)) return;
    uint64_t hash = hash_within(name, (size_t)(end - name), reader->key, page_end);
    reader->parts.data_attributes = join(reader->parts.data_attributes, hash);
}

void parts_meta(struct ndd_reader *reader, const uint8_t *content, size_t n, const uint8_t *page_end) {
    if (n > 0) reader->parts.template = join(reader->parts.template, hash_within(content, n, reader->key, page_end));
}

/* ------------------------------------------------------------------------------- once it has been read */

enum {
    TITLE_MOST = 64, /* tokens of the title that are compared with others: the time stays linear */
    NAME_MOST = 32,  /* tokens of a block that names the page */
    NAME_SHARE = 4   /* one in so many of them is the title's, at least */
};

/* Joins all tokens of a block, four at a time, so that one multiplication need not wait for the other. */
uint64_t parts_join(const struct ndd_reader *reader, uint64_t sum, const struct block *block) {
    const uint64_t c1 = NDD_HASH_C0, c2 = c1 * c1, c3 = c2 * c1, c4 = c2 * c2;
    const uint64_t *token = reader->tokens.at + block->first_token;
    uint32_t i = 0;
    for (; i + 4 <= block->tokens; i += 4) {
        sum = sum * c4 + (token[i] * c3 + token[i + 1] * c2 + token[i + 2] * c1 + token[i + 3]);
    }
    for (; i < block->tokens; i++) sum = join(sum, token[i]);
    return sum;
}

void parts_hidden(struct ndd_reader *reader, const struct block *block) {
    reader->parts.beside = parts_join(reader, reader->parts.beside, block);
}

static uint32_t first_of(const struct digits *at) {
    return (uint32_t)(at->words >> 48) | (uint32_t)(at->digits >> 48) << 16;
}

static const uint64_t OF_BYTES = (UINT64_C(1) << 48) - 1;

/* Takes the first token with a digit out of some, which must have one; returns the number of that token. */
static inline uint32_t take_number(struct digits *of) {
    uint64_t words = of->words & OF_BYTES, starts = words & ~(words << 1);
    uint32_t digit = lowest_bit(of->digits & OF_BYTES), behind = digit + lowest_bit(~(words >> digit));
    of->digits &= ~OF_BYTES | ~UINT64_C(0) << behind;
    return first_of(of) + (uint32_t)count_bits(starts & ((UINT64_C(2) << digit) - 1)) - 1;
}

/* Whether tokens are of a block; *next, of reader->digits, first passes by those before it. */
static int are_within(const struct ndd_reader *reader, const struct block *block, size_t *next) {
    while (*next < reader->digits.n && first_of(&reader->digits.at[*next]) < block->first_token) ++*next;
    return *next < reader->digits.n && first_of(&reader->digits.at[*next]) - block->first_token < block->tokens;
}

/* The next token of a block with a digit; the number of its tokens, if there is none. *of is {0, 0} at first. */
static uint32_t next_number(const struct ndd_reader *reader, const struct block *block, size_t *next, struct digits *of) {
    while ((of->digits & OF_BYTES) == 0) {
        if (!are_within(reader, block, next)) return block->tokens;
        *of = reader->digits.at[(*next)++];
    }
    return take_number(of) - block->first_token;
}

/* The numbers of a block, whose first is the next one. */
static uint64_t join_numbers(const struct ndd_reader *reader, uint64_t sum, const struct block *block, size_t *next) {
    struct digits of = {0, 0};
    for (uint32_t at; (at = next_number(reader, block, next, &of)) < block->tokens;)
        sum = join(sum, reader->tokens.at[block->first_token + at]);
    return sum;
}

static void hand_out(struct ndd_reader *reader, uint64_t hash) {
    if (NDD_ROOM(reader, reader->numbers, 1)) reader->numbers.at[reader->numbers.n++] = hash;
}

/* How many words of the page's title are no words of its text. */
static size_t title_words(const struct ndd_reader *reader) {
    return reader->title_tokens.n < TITLE_MOST ? reader->title_tokens.n : TITLE_MOST;
}

/* A bit for each of these, by its lowest bits: most other words need no search. */
static uint64_t title_bits(const struct ndd_reader *reader) {
    uint64_t bits = 0;
    for (size_t i = 0; i < title_words(reader); i++) bits |= UINT64_C(1) << (reader->title_tokens.at[i] & 63);
    return bits;
}

static int is_in_title(const struct ndd_reader *reader, uint64_t bits, uint64_t token) {
    if ((bits >> (token & 63) & 1) == 0) return 0;
    for (size_t i = 0; i < title_words(reader); i++)
        if (reader->title_tokens.at[i] == token) return 1;
    return 0;
}

/* How many words of a block are the title's; 0 if it is long, or not one in so many. */
static uint32_t title_share(const struct ndd_reader *reader, uint64_t title, const struct block *block, uint32_t share) {
    uint32_t n = 0;
    for (uint32_t at = 0; at < block->tokens && block->tokens <= NAME_MOST; at++)
        n += (uint32_t)is_in_title(reader, title, reader->tokens.at[block->first_token + at]);
    return share * n >= block->tokens ? n : 0;
}

/* The number of the block with which the page's own text begins. That is its headline (headline.c); where headings of the
 * first level say the site's name, and the first lower one says more of the title, word for word, it is that one, if little
 * stands above it: a slogan under that name. */
static size_t find_text(const struct ndd_reader *reader, uint64_t title) {
    uint32_t above = 0, said = 0;
    int is_under = 0; /* a heading of the first level */
    for (size_t i = 0; i < reader->blocks.n && above <= NAME_MOST; i++) {
        const struct block *block = &reader->blocks.at[i];
        const uint32_t is_top = block->context & IN_TOP;
        if (block->weight == 0) continue;
        if (!(block->context & (IN_TOP | IN_HEADING))) {
            above += block->tokens;
            continue;
        }
        const uint32_t says = title_share(reader, title, block, is_top ? 2 : 1);
        if (!is_top) return is_under && says > said ? i : 0;
        is_under = 1;
        if (says > said) said = says;
    }
    return 0;
}

/* How many numbers a block begins with; next is its first number. */
static uint32_t leading_numbers(const struct ndd_reader *reader, const struct block *block, size_t next) {
    struct digits of = {0, 0};
    uint32_t n = 0;
    while (n < block->tokens && next_number(reader, block, &next, &of) == n) n++;
    return n;
}

/* Ends the run of numbers whose first place is that of its word. */
static void end_run(struct ndd_reader *reader, size_t place, uint64_t word) {
    if (place < reader->numbers.n) reader->numbers.at[place] = word + !word;
    hand_out(reader, 0);
}

/* What stands for the place of a number: a word beside it; in a first heading, which names the page, always the same. */
static uint64_t place_of(const struct block *block, uint64_t word) {
    return block->context & IN_TOP ? NDD_IN_HEADING : word;
}

ndd_status ndd_reader_numbers(ndd_reader *reader, const uint64_t **hashes, size_t *n) {
    if (reader == NULL || hashes == NULL || n == NULL) return NDD_BAD_ARGUMENT;
    uint64_t last = 1;   /* token of the blocks until now */
    uint64_t before = 1; /* the token before the open run */
    size_t next = 0, place = 0; /* of the next number; of the open run's word */
    int is_open = 0;     /* a run has begun */
    reader->numbers.n = 0;
    for (size_t i = 0; i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        const uint64_t *tokens = reader->tokens.at + block->first_token;
        if (block->weight == 0 || block->tokens == 0) continue;
        const int is_apart = before == NDD_IN_HEADING || block->context & IN_TOP;
        if (is_open && (is_apart || leading_numbers(reader, block, next) < block->tokens)) { /* else it goes on */
            end_run(reader, place, before);
            is_open = 0;
        }
        uint32_t behind = 0; /* the last number of this block */
        struct digits of = {0, 0};
        for (uint32_t at; (at = next_number(reader, block, &next, &of)) < block->tokens; behind = at + 1) {
            if (is_open && at != behind) {
                end_run(reader, place, place_of(block, tokens[behind]));
                is_open = 0;
            }
            if (!is_open) {
                is_open = 1;
                before = place_of(block, at == 0 ? last : tokens[at - 1]);
                place = reader->numbers.n;
                hand_out(reader, 1);
            }
            hand_out(reader, tokens[at] + !tokens[at]);
        }
        if (is_open && behind < block->tokens) {
            end_run(reader, place, place_of(block, tokens[behind]));
            is_open = 0;
        }
        last = tokens[block->tokens - 1];
    }
    if (is_open) end_run(reader, place, before);
    if (reader->status != NDD_OK) return reader->status;
    *hashes = reader->numbers.at;
    *n = reader->numbers.n;
    return NDD_OK;
}

static uint32_t shortened(uint64_t words) { return words == 0 ? 0 : (uint32_t)(hash_mix(words) >> 32) | 1; }

ndd_status ndd_reader_texts(ndd_reader *reader, const uint64_t **hashes, size_t *n) {
    if (reader == NULL || hashes == NULL || n == NULL) return NDD_BAD_ARGUMENT;
    const uint64_t title = title_bits(reader);
    size_t next = 0;
    reader->texts.n = 0;
    for (size_t i = find_text(reader, title); i < reader->blocks.n; i++) {
        const struct block *block = &reader->blocks.at[i];
        const uint64_t *tokens = reader->tokens.at + block->first_token;
        if (block->weight == 0 || block->tokens == 0 || block->context & IN_TOP) continue;
        const uint64_t name = title_share(reader, title, block, NAME_SHARE) > 0 ? title : 0;
        struct digits of = {0, 0};
        uint32_t number = next_number(reader, block, &next, &of);
        uint64_t words = 0, unnamed = 0;
        for (uint32_t at = 0; at < block->tokens; at++) {
            if (at == number) {
                number = next_number(reader, block, &next, &of);
                continue;
            }
            words = join(words, tokens[at]);
            if (!is_in_title(reader, name, tokens[at])) unnamed = join(unnamed, tokens[at]);
        }
        if (words != 0 && NDD_ROOM(reader, reader->texts, 1))
            reader->texts.at[reader->texts.n++] = (uint64_t)shortened(words) << 32 | shortened(unnamed);
    }
    if (reader->status != NDD_OK) return reader->status;
    *hashes = reader->texts.at;
    *n = reader->texts.n;
    return NDD_OK;
}

void parts_settle(struct ndd_reader *reader, ndd_page *page) {
    uint64_t headings = 0, numbers = 0, beside = reader->parts.beside, template = reader->parts.template;
    size_t next_digits = 0;
    for (size_t next = 0; next < reader->blocks.n;) {
        struct block block = take_blocks(reader, &next, IN_DROPPED | IN_TOP);
        if (block.context & IN_TOP) headings = parts_join(reader, headings, &block);
        if (block.weight > 0) numbers = join_numbers(reader, numbers, &block, &next_digits);
        else if (block.context & IN_DROPPED) template = parts_join(reader, template, &block); /* navigation and its like */
        else beside = parts_join(reader, beside, &block);
    }
    store4_le(page->parts, parts_number(reader->parts.data));
    store4_le(page->parts + 4, parts_number(reader->parts.sources));
    store4_le(page->parts + 8, parts_number(reader->parts.data_attributes));
    store4_le(page->parts + 12, parts_number(headings));
    store4_le(page->parts + 16, parts_number(numbers));
    store4_le(page->parts + 20, parts_number(beside));
    store4_le(page->parts + 24, parts_number(reader->parts.attributes));
    store4_le(page->parts + 28, parts_number(template));
}
