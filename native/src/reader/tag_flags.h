/* Written by native/tools/make_tables.py; change that, not this. */
#include <stdint.h>

/* What a tag does to the scan. */
enum {
    TAG_BLOCK = 1 << 0,
    TAG_VOID = 1 << 1,
    TAG_BREAK = 1 << 2,
    TAG_RAW = 1 << 3,
    TAG_SKIP = 1 << 4,
    TAG_DROP = 1 << 5,
    TAG_MAIN = 1 << 6,
    TAG_HEADER = 1 << 7,
    TAG_HEADING = 1 << 8,
    TAG_LINK = 1 << 9,
    TAG_FORM = 1 << 10,
    TAG_ASIDE = 1 << 11,
    TAG_ROOT = 1 << 12,
    TAG_CELL = 1 << 13,
    TAG_ROW = 1 << 14,
    TAG_TABLE = 1 << 15,
    TAG_GROUP = 1 << 16,
    TAG_ITEM = 1 << 17,
    TAG_LIST = 1 << 18,
    TAG_TERM = 1 << 19,
    TAG_TERMS = 1 << 20,
    TAG_PARAGRAPH = 1 << 21,
    TAG_SCRIPT = 1 << 22,
    TAG_OPTION = 1 << 23,
    TAG_TITLE = 1 << 24,
    TAG_REL = 1 << 25,
};
