"""What tests of checkpointers stand on."""
