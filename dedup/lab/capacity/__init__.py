"""Planning: table designs (docs/plan.md), and how many machines a crawl takes (docs/scale.md)."""
