"""How a store's fingerprints are spread, and where many lie together: `dedup store report`."""
