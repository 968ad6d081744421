/*
 * Runs a fuzz harness where there is no libFuzzer: mutates seeds for FUZZ_SECONDS (default 2).
 *
 *     harness FOLDER ...    seeds are the files in the folders (tests/support/tools/make_corpus.py writes them)
 *     harness FILE          runs one input, once: a finding again
 *
 * A finding is written to a file, which is named. The number printed at the start repeats a run when
 * it is given as FUZZ_SEED. With libFuzzer, link the harness with -fsanitize=fuzzer in this file's
 * place (make fuzz does).
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define MAX_SEEDS 2048
#define MAX_INPUT (1 << 16)

static struct seed {
    uint8_t *bytes;
    size_t n;
} seeds[MAX_SEEDS];
static size_t count;

/* ---------------------------------------------------------------------------------- findings */

static const uint8_t *running; /* the input that the harness has */
static size_t running_length;
static const char *harness;

static void keep_finding(void) {
    char path[4096];
    if (running == NULL) return;
    snprintf(path, sizeof path, "%s-finding-%ld", harness, (long)time(NULL));
    FILE *file = fopen(path, "wb");
    if (file == NULL) return;
    fwrite(running, 1, running_length, file);
    fclose(file);
    running = NULL;
    fprintf(stderr, "the input was written to %s\n", path);
}

static void on_abort(int number) {
    keep_finding();
    signal(number, SIG_DFL);
    raise(number);
}

/* Asked by the sanitizers, where they are linked in: a finding ends as an abort does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "abort_on_error=1"; }
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) { return "abort_on_error=1:print_stacktrace=1"; }

static void run(const uint8_t *bytes, size_t n) {
    uint8_t *exact = malloc(n > 0 ? n : 1); /* so that a read past the end is seen */
    if (exact == NULL) exit(2);
    if (n > 0) memcpy(exact, bytes, n);
    running = exact;
    running_length = n;
    LLVMFuzzerTestOneInput(exact, n);
    running = NULL;
    free(exact);
}

/* ------------------------------------------------------------------------------------- seeds */

static void read_seed(const char *path, long most) {
    FILE *file = count < MAX_SEEDS ? fopen(path, "rb") : NULL;
    if (file == NULL) return;
    struct seed *seed = &seeds[count];
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    if (size > most) size = most;
    rewind(file);
    seed->bytes = malloc(size > 0 ? (size_t)size : 1);
    if (seed->bytes == NULL) exit(2);
    seed->n = fread(seed->bytes, 1, size > 0 ? (size_t)size : 0, file);
    count++;
    fclose(file);
}

static void read_folder(const char *path) {
    char name[4096];
    DIR *folder = opendir(path);
    if (folder == NULL) return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct stat status;
        if (snprintf(name, sizeof name, "%s/%s", path, entry->d_name) >= (int)sizeof name) continue;
        if (stat(name, &status) == 0 && S_ISREG(status.st_mode)) read_seed(name, MAX_INPUT);
    }
    closedir(folder);
}

/* --------------------------------------------------------------------------------- mutations */

static uint64_t state;

static uint64_t next(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545F4914F6CDD1D);
}

static size_t mutate(uint8_t *bytes, size_t n) {
    static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '<', '>', '&', ';', '/', '"', '\'', '=', '-'};
    size_t changes = 1 + next() % 8;
    while (changes-- > 0) {
        size_t at = n > 0 ? next() % n : 0;
        switch (next() % 6) {
        case 0:
            if (n > 0) bytes[at] = (uint8_t)next();
            break;
        case 1:
            if (n > 0) bytes[at] ^= (uint8_t)(1U << (next() % 8));
            break;
        case 2:
            if (n > 0) bytes[at] = telling[next() % sizeof telling];
            break;
        case 3: /* cut */
            n = n > 0 ? next() % (n + 1) : 0;
            break;
        case 4: { /* copy a run to another place */
            size_t length = n > 0 ? 1 + next() % 64 : 0;
            size_t from = n > 0 ? next() % n : 0;
            if (length > n - from) length = n - from;
            if (length > n - at) length = n - at;
            memmove(bytes + at, bytes + from, length);
            break;
        }
        default: /* insert a run of one byte */ {
            size_t length = 1 + next() % 32;
            if (n + length <= MAX_INPUT) {
                memmove(bytes + at + length, bytes + at, n - at);
                memset(bytes + at, telling[next() % sizeof telling], length);
                n += length;
            }
        }
        }
    }
    return n;
}

int main(int argc, char **argv) {
    struct stat status;
    const char *given = getenv("FUZZ_SEED");
    const char *seconds = getenv("FUZZ_SECONDS");
    harness = argv[0];
    signal(SIGABRT, on_abort);
    if (argc == 2 && stat(argv[1], &status) == 0 && S_ISREG(status.st_mode)) {
        read_seed(argv[1], (long)status.st_size);
        run(seeds[0].bytes, seeds[0].n);
        free(seeds[0].bytes);
        printf("no finding\n");
        return 0;
    }
    for (int i = 1; i < argc; i++) read_folder(argv[i]);
    state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    if (state == 0) state = 1;
    printf("seed %" PRIu64 ", %zu seed inputs\n", state, count);
    fflush(stdout);
    time_t end = time(NULL) + (seconds != NULL ? atol(seconds) : 2);
    uint8_t *bytes = malloc(MAX_INPUT);
    if (bytes == NULL) return 2;
    for (size_t i = 0; i < count; i++) run(seeds[i].bytes, seeds[i].n);
    uint64_t runs = count;
    do {
        size_t n = 0;
        if (count > 0) {
            const struct seed *seed = &seeds[next() % count];
            n = seed->n;
            if (n > 0) memcpy(bytes, seed->bytes, n);
        }
        run(bytes, mutate(bytes, n));
        runs++;
    } while (time(NULL) < end);
    printf("%" PRIu64 " inputs, no finding\n", runs);
    for (size_t i = 0; i < count; i++) free(seeds[i].bytes);
    free(bytes);
    return 0;
}
