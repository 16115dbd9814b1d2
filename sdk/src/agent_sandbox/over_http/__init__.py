"""The client through gateways: HTTP as `shared.rest` describes it, streams as server-sent events."""

from agent_sandbox.over_http.transport import HttpTransport

__all__ = ["HttpTransport"]
