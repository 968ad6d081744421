#include "ndd.h"

const char *ndd_strerror(int status) {
    switch (status) {
    case NDD_OK: return "done";
    case NDD_NO_MEMORY: return "out of memory";
    case NDD_BAD_ARGUMENT: return "an argument is outside what is allowed";
    case NDD_BAD_DISTANCE: return "the distance k must lie between 0 and 15";
    case NDD_TRUNCATED: return "the saved table is cut short";
    case NDD_DAMAGED: return "the saved table is damaged";
    case NDD_BAD_FORMAT: return "this is not a saved table";
    case NDD_BAD_VERSION: return "the saved table has a format version that this release does not read";
    case NDD_TOO_LARGE: return "more than this structure can hold";
    default: return "unknown status";
    }
}
