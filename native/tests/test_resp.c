/* Commands: what is read of them, and that nothing is read beyond them (under sanitizers). */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ndd_resp.h"

/* Read commands in memory of just their size. */
static size_t commands(const char *text, size_t size, size_t most, ndd_commands *read) {
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    CHECK(bytes != NULL);
    memcpy(bytes, text, size);
    size_t count = ndd_commands_read(bytes, size, most, 2, 5, read);
    free(bytes);
    return count;
}

static void test_commands_are_read_at_once_and_in_pieces(void) {
    static const char two[] = "*0\r\n*2\r\n$4\r\nECHO\r\n$3\r\n\r\n*\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\n";
    size_t first = 27, size = sizeof two - 1;
    for (size_t step = 1; step <= size; step++) {
        ndd_commands read = {0};
        size_t begin = 0, count = 0;
        for (size_t end = 0; end < size;) {
            end = end + step < size ? end + step : size;
            do {
                size_t found = commands(two + begin, end - begin, SIZE_MAX, &read);
                CHECK(read.behind == NDD_PART || read.behind == NDD_EMPTY);
                CHECK(read.at <= end - begin - read.end);
                CHECK(found == 0 || two[begin + 1] != '0');
                begin += read.end;
                count += found;
            } while (read.end > 0);
            CHECK(count == (end < first ? 0u : end < size ? 1u : 2u));
        }
        CHECK(begin == size && read.at == 0 && read.left == 0);
    }
    ndd_commands read = {0};
    CHECK(commands(two + 4, size - 4, 1, &read) == 1 && read.end == first - 4);
}

static void test_what_is_no_command_ends_them(void) {
    static const struct {
        const char *text;
        ndd_read then;
    } cases[] = {
        {"*0\r\n", NDD_EMPTY},             {"*-7\r\n", NDD_EMPTY},
        {"PING\r\n", NDD_OTHER},           {"\r\n", NDD_OTHER},          {"*3\r\n", NDD_MANY},
        {"*\r\n", NDD_NO_LENGTH},          {"*+1\r\n", NDD_NO_LENGTH},   {"*01\r\n", NDD_NO_LENGTH},
        {"*1\n", NDD_NO_LENGTH},           {"*1\r\r", NDD_NO_LENGTH},    {"*1234567890\r\n", NDD_NO_LENGTH},
        {"*1\r\n:1\r\n", NDD_NO_STRING},   {"*1\r\n*1\r\n", NDD_NO_STRING}, {"*1\r\n$-1\r\n", NDD_NO_LENGTH},
        {"*1\r\n$6\r\n", NDD_LONG},        {"*1\r\n$1 \r\n", NDD_NO_LENGTH}, {"*1\r\n$5\r\n", NDD_PART},
        {"*1\r\n$00\r\n", NDD_NO_LENGTH},  {"*-", NDD_PART},             {"*1\r", NDD_PART},
    };
    static const char ping[] = "*1\r\n$6\r\nLONGER\r\n";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        size_t before = sizeof ping - 1, behind = strlen(cases[i].text);
        memcpy(text, ping, before);
        memcpy(text + before, cases[i].text, behind);
        ndd_commands read = {0};
        CHECK(commands(text, before + behind, SIZE_MAX, &read) == 1);
        CHECK(read.end == before && read.behind == cases[i].then);
    }
}

/* Read answers in memory of just their size. */
static size_t answers(const char *text, size_t size, ndd_answers *read) {
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    CHECK(bytes != NULL);
    memcpy(bytes, text, size);
    size_t count = ndd_answers_read(bytes, size, 5, 40, read);
    free(bytes);
    return count;
}

static void test_answers_are_read_at_once_and_in_pieces(void) {
    static const char many[] = "+OK\r\n-ERR no\r\n:-7\r\n$-1\r\n$0\r\n\r\n*0\r\n*-1\r\n*2\r\n$3\r\na\r\n\r\n*2\r\n:1\r\n*1\r\n+x\r\n+b\r\n";
    size_t size = sizeof many - 1;
    for (size_t step = 1; step <= size; step++) {
        ndd_answers read = {0};
        size_t begin = 0, count = 0;
        for (size_t end = 0; end < size;) {
            end = end + step < size ? end + step : size;
            count += answers(many + begin, end - begin, &read);
            CHECK(read.fault == NDD_PART && read.at <= end - begin - read.end);
            begin += read.end;
        }
        CHECK(count == 9 && begin == size && read.at == 0 && read.depth == 0);
    }
}

static void test_answers_beyond_the_bounds_end_them(void) {
    static const struct {
        const char *text;
        ndd_read fault;
    } cases[] = {
        {"*6\r\n", NDD_MANY},        {"*2147483647\r\n", NDD_NO_LENGTH}, {"*3\r\n*3\r\n", NDD_MANY},
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", NDD_MANY},              {"$41\r\n", NDD_LONG},
        {"$99999999999\r\n", NDD_NO_LENGTH},                            {"%1\r\n", NDD_OTHER},
        {"HTTP/1.1 200 OK\r\n", NDD_OTHER},                             {"*2\r\n$30\r\n123456789012345678901234567890\r\n$5\r\n", NDD_LONG},
        {"+12345678901234567890123456789012345678901234567890\r\n", NDD_LONG},
        {"*1\r\n$x", NDD_NO_LENGTH}, {"*5\r\n", NDD_PART},              {"$40\r\n", NDD_PART},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128] = "+OK\r\n";
        size_t size = strlen(cases[i].text);
        memcpy(text + 5, cases[i].text, size);
        ndd_answers read = {0};
        CHECK(answers(text, 5 + size, &read) == 1);
        CHECK(read.end == 5 && read.fault == cases[i].fault);
    }
}

int main(void) {
    test_commands_are_read_at_once_and_in_pieces();
    test_what_is_no_command_ends_them();
    test_answers_are_read_at_once_and_in_pieces();
    test_answers_beyond_the_bounds_end_them();
    return 0;
}
