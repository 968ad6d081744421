/* A reader's memory: lists that grow with a page and are kept for the next one, up to a bound. */
#include <stdlib.h>
#include <string.h>

#include "reader/reading.h"

#define SCRATCH_KEPT ((size_t)16 << 20) /* bytes kept between pages */

int scratch_grow(struct ndd_reader *reader, void *list, size_t element, size_t more) {
    NDD_LIST(void) any; /* all lists are laid out alike */
    memcpy(&any, list, sizeof any);
    size_t room = any.room < 256 ? 256 : any.room + any.room / 2;
    if (room < any.n + more) room = any.n + more;
    void *moved = room > SIZE_MAX / element ? NULL : realloc(any.at, room * element);
    if (moved == NULL) {
        if (reader->status == NDD_OK) reader->status = NDD_NO_MEMORY;
        return 0;
    }
    any.at = moved;
    any.room = room;
    memcpy(list, &any, sizeof any);
    return 1;
}

/* All lists of a reader. */
#define EACH_LIST(DO) \
    DO(tokens) DO(blocks) DO(set) DO(set_weights) DO(slots) DO(waits) DO(digits) DO(title_tokens) \
    DO(links) DO(targets) DO(numbers) DO(texts) DO(block_list) DO(hidden) DO(passed) DO(words_kept) \
    DO(words_shown)

static size_t scratch_bytes(const struct ndd_reader *reader) {
    size_t bytes = 0;
#define ADD(list) bytes += reader->list.room * sizeof *reader->list.at;
    EACH_LIST(ADD)
    return bytes;
}

void scratch_drop(struct ndd_reader *reader) {
#define DROP(list) \
    free(reader->list.at); \
    reader->list.at = NULL; \
    reader->list.n = reader->list.room = 0;
    EACH_LIST(DROP)
}

void scratch_trim(struct ndd_reader *reader) {
    if (scratch_bytes(reader) > SCRATCH_KEPT) scratch_drop(reader);
}
