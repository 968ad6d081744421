"""Values, policy, recipes and names: the standard library and msgspec only, no I/O."""
