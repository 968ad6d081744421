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

static size_t scratch_bytes(const struct ndd_reader *reader) {
    return reader->tokens.room * sizeof *reader->tokens.at +
           reader->blocks.room * sizeof *reader->blocks.at +
           reader->set.room * sizeof *reader->set.at +
           reader->set_weights.room * sizeof *reader->set_weights.at +
           reader->slots.room * sizeof *reader->slots.at +
           reader->waits.room * sizeof *reader->waits.at +
           reader->digits.room * sizeof *reader->digits.at +
           reader->title_tokens.room * sizeof *reader->title_tokens.at +
           reader->links.room * sizeof *reader->links.at +
           reader->targets.room * sizeof *reader->targets.at +
           reader->numbers.room * sizeof *reader->numbers.at +
           reader->block_list.room * sizeof *reader->block_list.at +
           reader->unscripted.room * sizeof *reader->unscripted.at +
           reader->shingles.room + reader->words_kept.room + reader->words_shown.room;
}

#define DROP(list) (free((list).at), (list).at = NULL, (list).n = 0, (list).room = 0)

void scratch_drop(struct ndd_reader *reader) {
    DROP(reader->tokens);
    DROP(reader->blocks);
    DROP(reader->set);
    DROP(reader->set_weights);
    DROP(reader->slots);
    DROP(reader->waits);
    DROP(reader->digits);
    DROP(reader->title_tokens);
    DROP(reader->links);
    DROP(reader->targets);
    DROP(reader->numbers);
    DROP(reader->block_list);
    DROP(reader->shingles);
    DROP(reader->unscripted);
    DROP(reader->words_kept);
    DROP(reader->words_shown);
}

void scratch_trim(struct ndd_reader *reader) {
    if (scratch_bytes(reader) > SCRATCH_KEPT) scratch_drop(reader);
}
