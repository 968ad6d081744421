/* URLs taken apart: what a canonical URL (target.c) and a link (links.c) have in common. */
#ifndef NDD_TARGET_H
#define NDD_TARGET_H

#include <stddef.h>
#include <stdint.h>

#define NDD_TARGET_BYTES 2048 /* what is longer counts by its beginning */

struct target {
    const uint8_t *host; /* in href, or in decoded */
    size_t host_length;  /* 0 if the URL names none */
    const uint8_t *rest; /* path and query */
    size_t length;
    int absolute;        /* a scheme or a host was named */
    uint8_t decoded[NDD_TARGET_BYTES];
};

/* Takes apart what an href attribute holds, without its fragment; 0 if it leads nowhere or is no HTTP. */
int target_split(const uint8_t *href, size_t n, struct target *target);

/* Whether a parameter "name=value" is one of a session or a campaign. */
int target_is_volatile(const uint8_t *parameter, size_t n);

#endif
