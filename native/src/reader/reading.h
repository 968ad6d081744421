/*
 * What the steps of reading a page share. A page takes this way:
 *
 *     scan.c    bytes -> tags and text; keeps the stack of open elements and their context
 *     tags.c    a tag's name and attributes -> what they mean
 *     words.c   text -> tokens, gathered into blocks
 *     identity.c  title and canonical URL -> what the page says it is
 *     thing.c   structured data -> the number of the thing that the page is about
 *     parts.c   hashes of what pages of similar text may differ in
 *     target.c  a URL -> the bytes that stand for it
 *     links.c   where the page leads, when that is asked for
 *     hidden.c  whether what is hidden counts
 *     wrappers.c  which hints do not count, for most of the text is inside
 *     headline.c  where the page's own text begins
 *     blocks.c  which blocks are main content, and their weights      (the one place of scoring)
 *     repeats.c which of them say again what the page said before
 *     features.c  tokens of the kept blocks -> ndd_page
 *     block_list.c  what whoever counts the blocks of a site needs
 *     sketch.c  shingles -> how alike two texts are
 *     reader.c  the public functions: leads a page through all of them
 *     scratch.c the memory that all of this takes
 *     chunk.h   how several of them look at 16 bytes at a time, and at each where that is not known
 */
#ifndef NDD_READING_H
#define NDD_READING_H

#include "ndd.h"

struct attributes; /* tags.h */

/* What holds at a place in the page; an element hands its context down to what it contains. The first
 * ones in the order of the TAG_ flags that give them. */
enum {
    IN_SKIPPED = 1 << 0,  /* no text: an element that holds none, or hidden within a line */
    IN_DROPPED = 1 << 1,  /* navigation and the like: never content */
    IN_MAIN = 1 << 2,     /* article or main */
    IN_HEADER = 1 << 3,   /* no content unless in main */
    IN_HEADING = 1 << 4,
    IN_LINK = 1 << 5,
    IN_FORM = 1 << 6,     /* hints that it is no content, which may turn out not to count (wrappers.c): */
    IN_ASIDE = 1 << 7,
    IN_ANY = (1 << 8) - 1,
    IN_COMMENTS = 1 << 8,
    IN_COMMENTS_INSIDE = 1 << 9, /* comments within comments */
    IN_BESIDE = 1 << 10,    /* a class or id of what stands in front of the content or beside it */
    IN_NOTICE = 1 << 11,  /* of a block: the sign of a copyright stands in it */
    IN_PAGING = 1 << 12,  /* of a link: to the next page of a list, or one of its pages by number */
    IN_VEILED = 1 << 13,  /* skipped, but blocks inside are only hidden: hidden within a line, or for a browser without scripts */
    IN_TOP = 1 << 14,     /* h1 */
    IN_PROPERTY = 1 << 15, /* a thing that is a property of another one (microdata) */
    IN_ABOVE = 1 << 17,    /* of a block: above the page's headline (headline.c) */
    IN_UNSCRIPTED = 1 << 18, /* for a browser without scripts */
    IN_HIDDEN = 1 << 19,    /* until a script or a click shows it (hidden.c) */
    IN_FOREIGN = 1 << 21,   /* SVG or MathML, but what is HTML again inside of it */
    IN_DRAWN = 1 << 22      /* SVG that is seen: of it, the text */
};

/* The text between two block-level tags. */
struct block {
    uint32_t first_token;
    uint32_t tokens;
    uint32_t link_tokens;
    uint32_t context;   /* at its first token */
    uint32_t weight;    /* of each of its tokens; 0 leaves the block out (set by blocks.c) */
    uint32_t main;      /* the number of the outermost article or main element that it stands in, if it is IN_MAIN */
    size_t first_word;  /* where its words start in words_kept, when they are kept */
    size_t end_word;
    uint64_t bytes;     /* of its tokens; while it is open, text_bytes at its beginning */
};

/* A link, while the page is there. */
struct link {
    const uint8_t *href;
    uint32_t length;
    uint32_t context;
    uint64_t hash; /* of its target, once it is settled; 0: it counts for nothing */
};

/* The numbers of one thing: [0] its seller's, [1] its maker's. */
struct numbers {
    uint32_t rank[2]; /* of the property that gave it; 0: none */
    uint32_t hash[2]; /* 30 bits */
};

/* What one kind of structured data says (thing.c). */
struct names {
    struct numbers numbered;   /* of the first thing that has a product's number */
    struct numbers identified; /* of the first one that has only an identifier */
};

struct identifiers {
    struct names data, marked; /* JSON-LD, microdata */
    struct numbers item;       /* microdata: the thing that is being read */
    uint64_t id;               /* JSON-LD: the first @id, */
    int id_found, id_is_url;
    uint64_t declared_path;    /* of the canonical URL, without its query; 0: none */
    uint64_t open_graph_path;  /* and of og:url */
    uint32_t open_graph;       /* its hash as a canonical URL */
};

/* Hashes of sequences (parts.c). */
struct parts {
    uint64_t data, sources, data_attributes, attributes, template, beside;
};

/* Up to 48 bytes of text: a bit for each that is of a word, the first byte's the lowest, and for each that is a digit.
 * The bits above are the lower and the upper half of the number of the first token. */
struct digits {
    uint64_t words;
    uint64_t digits;
};

#define NDD_LIST(type) struct { type *at; size_t n, room; }

struct ndd_reader {
    ndd_key key;
    ndd_status status; /* the first failure; after it nothing more is gathered */
    NDD_LIST(uint64_t) tokens;
    NDD_LIST(struct block) blocks;
    NDD_LIST(uint64_t) set;         /* scratch of features.c and repeats.c */
    NDD_LIST(uint32_t) set_weights; /* scratch of features.c */
    NDD_LIST(uint32_t) slots;       /* scratch of features.c */
    NDD_LIST(uint64_t) waits;       /* scratch of features.c */
    NDD_LIST(uint64_t) title_tokens;
    NDD_LIST(struct digits) digits; /* which tokens have one */
    NDD_LIST(struct link) links;
    NDD_LIST(uint64_t) targets;     /* what ndd_reader_links hands out */
    size_t targets_until[3];        /* where those of each place end (links.c) */
    NDD_LIST(uint64_t) numbers;     /* what ndd_reader_numbers hands out */
    NDD_LIST(uint64_t) texts;       /* what ndd_reader_texts hands out */
    NDD_LIST(uint64_t) block_list;  /* what ndd_reader_blocks hands out */
    NDD_LIST(struct block) hidden;  /* blocks that were left out (hidden.c) */
    NDD_LIST(uint64_t) passed;      /* text that was passed by: an entry of the list of blocks each */
    NDD_LIST(uint8_t) words_kept;
    NDD_LIST(uint8_t) words_shown;  /* what ndd_reader_words hands out */
    int keep_words;
    uint32_t open;      /* marks of contexts that do not count on this page (hidden.c, wrappers.c) */
    const uint8_t *address; /* the page's URL, if its links are asked for */
    size_t address_length;
    uint64_t own_target;    /* the hash of a link to it */
    uint32_t words;     /* that a visitor sees (set by hidden.c) */
    uint32_t listed;    /* the content is lists of links (blocks.c) */
    uint32_t has_main;  /* IN_MAIN if some content is in it */
    uint32_t title;     /* hashes of what the page says it is, 0 for nothing (identity.c) */
    uint32_t canonical;
    struct identifiers identifiers;
    struct parts parts;
    uint64_t text_bytes;
    uint64_t data_bytes;
    uint64_t invalid_bytes;
    const uint8_t *directory; /* of the page's URL */
    size_t directory_length;

    /* words.c: the token being read */
    uint32_t context;       /* of the place the scan is at */
    uint32_t mains;         /* outermost article and main elements so far */
    uint32_t token_context; /* of the token's first character */
    uint8_t token[128 + 16];
    uint32_t token_length;
    int token_number;       /* a digit beyond ASCII stands in it */
    uint32_t before;        /* the character before, in a run of a spaceless script: its UTF-8 */
    uint32_t before_length;
    uint32_t run;           /* characters in that run so far */
    uint32_t link_tokens;   /* of the last block so far */
    int in_block;           /* the last block is still open */
    uint32_t notice;        /* IN_NOTICE if the next block begins with the sign */
};

/* scratch.c. NDD_ROOM makes room for so many more elements of a list; 0 and status set when there is
 * no memory. */
#define NDD_ROOM(reader, list, more)                     \
    ((list).room - (list).n >= (size_t)(more) ||     \
     scratch_grow(reader, &(list), sizeof *(list).at, more))
int scratch_grow(struct ndd_reader *reader, void *list, size_t element, size_t more);
void scratch_trim(struct ndd_reader *reader); /* gives back what a large page left behind */
void scratch_drop(struct ndd_reader *reader);

/* scan.c */
void reader_scan(struct ndd_reader *reader, const uint8_t *html, size_t n);

/* words.c. Text runs up to the next '<' (or to the end) and returns where it stopped; plain text
 * takes '<' and '&' for separators. */
const uint8_t *words_html(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end);
void words_plain(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end);
/* Text that is no markup, as a block of its own: character references count in it, and '<' separates. */
void words_block(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end, uint32_t context);
/* Reads the tokens of the page's title, which is no block. */
void words_title(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end);
void words_break(struct ndd_reader *reader);     /* a word ends here */
void words_end_block(struct ndd_reader *reader); /* and so does a block */

/* block_list.c: notes text that is passed by, in words that are no block. */
void block_list_pass(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end, const uint8_t *page_end);

/* A word ends, and so does a block, but if its tokens are of a drawing (drawn = 1), or are not (0). */
void words_end_unless(struct ndd_reader *reader, int drawn);

/* target.c: the hash of what a URL leads to; 0 for nothing. */
int target_hash(const struct ndd_reader *reader, const uint8_t *href, size_t n, uint64_t *hash);

/* The same of the URL as it is written, where a relative one is not completed with the page's folder, and without its
 * query. */
int target_hash_path(const struct ndd_reader *reader, const uint8_t *href, size_t n, uint64_t *hash);

/* links.c: notes a link; whether the text behind one is a number; which links count, with the context that
 * the content needs (blocks.c). */
void links_add(struct ndd_reader *reader, const uint8_t *href, size_t n, uint32_t context);
int links_is_number(const uint8_t *text, const uint8_t *end);
void links_settle(struct ndd_reader *reader, uint32_t needed);

/* identity.c: the hash of a title's text; 0 for none. */
uint32_t identity_title(const struct ndd_reader *reader, const uint8_t *text, size_t n);

/* Notes the canonical URL that the page declares, and og:url. */
void identity_canonical(struct ndd_reader *reader, const uint8_t *href, size_t n);
void identity_open_graph(struct ndd_reader *reader, const uint8_t *url, size_t n);
void identity_settle(struct ndd_reader *reader, ndd_page *page);

/* thing.c: reads a script of JSON-LD; a start tag with microdata, whose content begins at `after`. thing_context:
 * the mark that its element gets. */
void thing_data(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end);
void thing_tag(struct ndd_reader *reader, const struct attributes *found, int is_void, const uint8_t *after,
               const uint8_t *end);
uint32_t thing_context(const struct attributes *found);
uint32_t thing_of(struct ndd_reader *reader);

/* parts.c: adds a script of inline data, the source of an image or a frame, an attribute, the content of a <meta>, tokens
 * of what is hidden. */
void parts_data(struct ndd_reader *reader, const uint8_t *at, const uint8_t *end, int is_data, const uint8_t *page_end);
void parts_source(struct ndd_reader *reader, const uint8_t *src, size_t n, const uint8_t *page_end);
void parts_data_attribute(struct ndd_reader *reader, const uint8_t *name, size_t n, const uint8_t *end,
                          const uint8_t *page_end);
void parts_attribute(struct ndd_reader *reader, const uint8_t *name, const uint8_t *end, const uint8_t *page_end);
void parts_meta(struct ndd_reader *reader, const uint8_t *content, size_t n, const uint8_t *page_end);
void parts_hidden(struct ndd_reader *reader, const struct block *block);

/* The number of a sequence of hashes; joins the tokens of a block to its sum. */
uint32_t parts_number(uint64_t sum);
uint64_t parts_join(const struct ndd_reader *reader, uint64_t sum, const struct block *block);
void parts_settle(struct ndd_reader *reader, ndd_page *page);

/* hidden.c: leaves out the blocks that are hidden, or takes the mark off all of them. */
void hidden_settle(struct ndd_reader *reader);

/* blocks.c */
void blocks_weigh(struct ndd_reader *reader);

/* headline.c: leaves out what stands above the heading that says the title. */
void headline_begin(struct ndd_reader *reader);

/* wrappers.c */
void wrappers_open(struct ndd_reader *reader);

/* These are asked of every block, several times, and blocks come as they like: so there is no branch in them. */
static inline int in_content(uint32_t context) {
    uint32_t others = IN_DROPPED | IN_FORM | IN_ASIDE | IN_BESIDE | IN_COMMENTS | IN_COMMENTS_INSIDE | IN_ABOVE;
    return ((context & others) == 0) & ((context & (IN_HEADER | IN_MAIN)) != IN_HEADER);
}

#define NDD_OF_FORM (UINT32_C(1) << 20) /* among hints: IN_ASIDE of what stands in a form, its buttons */

/* Leaves out hints that do not count. */
static inline uint32_t without_hints(uint32_t context, uint32_t hints) {
    return context & ~(context & IN_FORM && hints & NDD_OF_FORM ? hints | IN_ASIDE : hints);
}

static inline int mostly_links(const struct block *block) {
    return 2 * (uint64_t)block->link_tokens > block->tokens;
}

#define NDD_ENTRY_MOST 30 /* tokens that an entry of a list of links counts for */

static inline uint32_t entry_tokens(const struct block *block) {
    return block->tokens < NDD_ENTRY_MOST ? block->tokens : NDD_ENTRY_MOST;
}

static inline int stands_where(const struct block *block, uint32_t needed) {
    return in_content(block->context) & ((block->context & needed) == needed);
}

static inline int is_text(const struct block *block) {
    return in_content(block->context) & !mostly_links(block);
}

/* Takes the block at *next, and those behind it that follow in the text, are kept like it or are not, and have the same
 * marks of these: one block in place of them, for a loop over a few tokens ends unforeseen. */
static inline struct block take_blocks(const struct ndd_reader *reader, size_t *next, uint32_t marks) {
    const struct block *block = &reader->blocks.at[(*next)++];
    struct block all = *block;
    for (; *next < reader->blocks.n; ++*next) {
        block++;
        if (block->first_token != all.first_token + all.tokens || (block->weight > 0) != (all.weight > 0) ||
            ((block->context ^ all.context) & marks)) break;
        all.tokens += block->tokens;
    }
    return all;
}

/* repeats.c */
void repeats_leave(struct ndd_reader *reader);

/* features.c */
void features_sum(struct ndd_reader *reader, ndd_page *page);

/* Of a page whose text is too little to be judged by: what only a copy of it has. */
void features_whole(const struct ndd_reader *reader, const uint8_t *html, size_t n, ndd_page *page);

#endif
