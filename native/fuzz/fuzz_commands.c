/*
 * What a client sends, and what it is answered, in any bytes.
 *
 *     input = the size of a piece, then the bytes
 *
 * Read as they come, piece by piece, they are as many commands, or answers, that end at the same place, and what is
 * behind them is the same, as when all of them are there at once.
 */
#include "fuzz.h"
#include "ndd_resp.h"

struct seen {
    size_t commands, empty, end;
    ndd_read behind;
};

/* Reads what has arrived, `known` of the bytes, on from where `seen` and `read` are. */
static void take(const uint8_t *bytes, size_t known, size_t longest, struct seen *seen, ndd_commands *read) {
    for (size_t count = 1; count > 0 || read->behind == NDD_EMPTY;) {
        uint8_t *exact = fuzz_exact(bytes + seen->end, known - seen->end, 0);
        count = ndd_commands_read(exact, known - seen->end, 3, 5, longest, read);
        fuzz_drop(exact, 0);
        MUST(count <= 3 && read->end <= known - seen->end && read->at <= known - seen->end - read->end);
        MUST(read->left <= 5 && (count > 0 || read->end == 0 || read->behind == NDD_EMPTY));
        seen->commands += count;
        seen->empty += count == 0 && read->behind == NDD_EMPTY;
        seen->end += read->end;
        seen->behind = read->behind;
        if (read->behind != NDD_PART && read->behind != NDD_EMPTY) {
            if (count == 0) return;
            *read = (ndd_commands){0};
        }
    }
}

/* Reads the bytes as answers, in pieces; what is behind them goes to *fault, where they end to *end. */
static size_t answers(const uint8_t *bytes, size_t n, size_t piece, ndd_read *fault, size_t *end) {
    ndd_answers read = {0};
    size_t count = 0;
    *end = 0;
    *fault = NDD_PART;
    for (size_t known = 0; known < n && *fault == NDD_PART;) {
        known = n - known < piece ? n : known + piece;
        uint8_t *exact = fuzz_exact(bytes + *end, known - *end, 0);
        count += ndd_answers_read(exact, known - *end, 9, 50, &read);
        fuzz_drop(exact, 0);
        MUST(read.end <= known - *end && read.at <= known - *end - read.end);
        MUST(read.depth <= NDD_ANSWER_DEPTH && read.elements <= 9);
        *end += read.end;
        *fault = read.fault;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n == 0) return 0;
    size_t piece = (size_t)bytes[0] % 40 + 1;
    bytes++;
    n--;
    struct seen whole = {0}, cut = {0};
    ndd_commands read = {0};
    take(bytes, n, n, &whole, &read);
    read = (ndd_commands){0};
    for (size_t known = 0; known < n && (cut.behind == NDD_PART || cut.behind == NDD_EMPTY);) {
        known = n - known < piece ? n : known + piece;
        take(bytes, known, n, &cut, &read);
    }
    MUST(cut.commands == whole.commands && cut.empty == whole.empty && cut.end == whole.end);
    MUST(cut.behind == whole.behind);
    ndd_read faults[2];
    size_t ends[2];
    MUST(answers(bytes, n, n, &faults[0], &ends[0]) == answers(bytes, n, piece, &faults[1], &ends[1]));
    MUST((faults[0] != NDD_PART) == (faults[1] != NDD_PART) && ends[0] == ends[1]);
    return 0;
}
