"""What sets a cluster up on Kubernetes: keys, certificates, credentials, streams. `python -m agent_sandbox.provisioner`.

It holds the root of trust and writes what follows from it into Secrets; it is on nobody's way while tasks run.
"""
