"""The confined half of a worker: runs user code. Stands on the standard library alone."""
