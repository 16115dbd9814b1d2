"""The client straight on NATS."""

from agent_sandbox.over_nats.transport import NatsTransport

__all__ = ["NatsTransport"]
