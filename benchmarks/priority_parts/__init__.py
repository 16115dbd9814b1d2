"""What `bench priority` consists of."""
