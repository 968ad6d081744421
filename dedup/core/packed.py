"""Read bytes that were packed with gzip: every member, or an error."""

import zlib

_STEP = 1 << 12  # bytes that are unpacked at a time: what lies after a member is copied


def gunzipped(data: bytes, most: int) -> bytes:
    """Return what was packed, up to so many bytes (one at least).

    Raises zlib.error for what is no gzip, is cut short, or has something else after a member.
    """
    found = bytearray()
    unpacker = zlib.decompressobj(wbits=31)
    rest = b""
    for begin in range(0, len(data), _STEP):
        rest += data[begin : begin + _STEP]
        while rest:
            if unpacker.eof:
                rest = rest.lstrip(b"\0")  # some packers fill up with them
                if not rest:
                    break
                unpacker = zlib.decompressobj(wbits=31)
            found += unpacker.decompress(rest, most - len(found))
            if len(found) == most:
                return bytes(found)
            rest = unpacker.unused_data
    if not unpacker.eof:
        raise zlib.error("it ends early")
    return bytes(found)
