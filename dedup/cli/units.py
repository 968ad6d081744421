"""Formats bytes, times and counts in the largest unit that fits. Pure functions."""

__all__ = ["scaled_text", "size_text", "time_text"]

UNITS = ("", "K", "M", "G", "T", "P", "E")


def size_text(number: float) -> str:
    """Return bytes in the largest unit: "1.25 TiB"."""
    return f"{scaled_text(number, 1024)}{'i' if number >= 1024 else ''}B"


def time_text(ns: float) -> str:
    """Return nanoseconds in the largest unit below a minute: "13.3 us"."""
    for unit, most in (("ns", 1e3), ("us", 1e6), ("ms", 1e9)):
        if ns < most:
            return f"{ns * 1e3 / most:.3g} {unit}"
    return f"{ns / 1e9:.3g} s"


def scaled_text(number: float, base: int) -> str:
    """Return a number in the largest unit of which there is at least one: "256 K"."""
    power = 0
    while number >= base and power < len(UNITS) - 1:
        number /= base
        power += 1
    text = f"{number:.4g}" if number >= 100 else f"{number:.3g}"
    return f"{text} {UNITS[power]}"
