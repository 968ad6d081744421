"""The table service measured: one alone, and several that share a store."""
