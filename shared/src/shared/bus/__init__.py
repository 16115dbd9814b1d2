"""The adapter to NATS: the only place that knows its client library, and mends its faults.

Which, and what proves it: tests/integration/bus/rules.md.
"""

from shared.bus.bus import Bus
from shared.bus.known import know_servers
from shared.bus.pull import Delivery
from shared.bus.subscription import Subscription
from shared.bus.types import BusOptions, Handler, Message, PubAck, Stored, Tls, Tracer, Write

__all__ = [
    "Bus",
    "BusOptions",
    "Delivery",
    "Handler",
    "Message",
    "PubAck",
    "Stored",
    "Subscription",
    "Tls",
    "Tracer",
    "Write",
    "know_servers",
]
