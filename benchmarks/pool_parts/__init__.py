"""Parts of `bench pool`."""
