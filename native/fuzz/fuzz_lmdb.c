/*
 * A documents.mdb of any bytes.
 *
 *     input = the file
 *
 * It is refused with a reason, or what was found in it lies inside the file.
 */
#include "fuzz.h"
#include "ndd_bulk.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    uint8_t *file = fuzz_exact(bytes, n, 0);
    ndd_lmdb found, again;
    char reason[64] = "";
    int older = n % 2;
    ndd_status status = ndd_lmdb_check(file, n, older, &found, reason, sizeof reason);
    MUST(status == NDD_OK || status == NDD_DAMAGED || status == NDD_BAD_VERSION);
    MUST((status == NDD_DAMAGED) == (reason[0] != '\0'));
    for (int i = 0; i < 2 && status == NDD_OK; i++) {
        MUST(found.state_at[i] <= n && found.state_size[i] <= n - found.state_at[i]);
    }
    MUST(ndd_lmdb_check(file, n, older, &again, reason, sizeof reason) == status);
    MUST(memcmp(&found, &again, sizeof found) == 0);
    fuzz_drop(file, 0);
    return 0;
}
