/*
 * Which of the pages on stdin, one a line, look like an earlier one?
 *
 *     cmake -S native -B build/c && cmake --build build/c && cmake --install build/c --prefix PREFIX
 *     cc near.c $(PKG_CONFIG_PATH=PREFIX/lib/pkgconfig pkg-config --cflags --libs ndd) -o near
 */
#include <inttypes.h>
#include <ndd.h>
#include <stdio.h>
#include <string.h>

enum { DISTANCE = 8, LONGEST = 1 << 20 };

static int failed(ndd_status status) {
    fprintf(stderr, "near: %s\n", ndd_strerror(status));
    return 1;
}

int main(void) {
    static char line[LONGEST];
    ndd_reader *reader = NULL;
    ndd_table *table = NULL;
    ndd_answer *answer = NULL;
    ndd_status status = ndd_reader_open(&reader);
    if (status == NDD_OK) status = ndd_table_open(DISTANCE, NDD_AUTO, &table);
    if (status == NDD_OK) status = ndd_answer_open(&answer);
    for (uint64_t number = 1; status == NDD_OK && fgets(line, LONGEST, stdin) != NULL; number++) {
        ndd_page page;
        const uint64_t *offsets;
        const ndd_match *matches;
        uint64_t inserted;
        status = ndd_read_html(reader, (const uint8_t *)line, strlen(line), NULL, 0, (ndd_key){0, 0}, &page);
        if (status == NDD_OK) status = ndd_table_probe(table, &page.value, 1, 1, answer);
        if (status != NDD_OK) break;
        ndd_answer_get(answer, &offsets, &matches);
        printf("%" PRIu64 " %016" PRIx64, number, page.value);
        if (offsets[1] > 0) printf(" like %" PRIu64 ", %u bits", matches[0].document, matches[0].distance);
        printf("\n");
        status = ndd_table_insert(table, &page.value, &number, 1, &inserted);
    }
    ndd_answer_close(answer);
    ndd_table_close(table);
    ndd_reader_close(reader);
    return status == NDD_OK ? 0 : failed(status);
}
