"""Parts of `bench pool-live`."""
