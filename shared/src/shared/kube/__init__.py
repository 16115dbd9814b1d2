"""The Kubernetes API: the official client's configuration and transport, with our errors, deadlines and types.

Imported part by part: `views` is light, `client` and what stands on it needs the extra `kubernetes`.
"""
