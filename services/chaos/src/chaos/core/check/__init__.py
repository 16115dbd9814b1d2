"""The checkers: what must not be in a history. Each takes time in proportion to it, but for sorting."""
