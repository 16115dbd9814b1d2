"""The client edge: a filter before one NATS server. Permissions name subjects; this one looks at headers."""
