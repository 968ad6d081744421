"""The capacity model: how many machines a crawl takes (docs/scale.md)."""
