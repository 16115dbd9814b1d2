"""The trusted half of a worker: claims sessions and drives the confined runner."""
