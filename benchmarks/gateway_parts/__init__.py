"""Parts of `bench gateway`."""
