"""What the worker's loops need from outside. `adapters` implements these, `app` joins them."""

from worker_agent.ports.files import Objects, ObjectSink, Volumes, Workspaces
from worker_agent.ports.sandbox import RunOrder, Sandbox, Terminals
from worker_agent.ports.session import Delivery, Entry, Held, Lanes, Truth
from worker_agent.ports.voice import Contact, Spans, Voice

__all__ = [
    "Contact",
    "Delivery",
    "Entry",
    "Held",
    "Lanes",
    "ObjectSink",
    "Objects",
    "RunOrder",
    "Sandbox",
    "Spans",
    "Terminals",
    "Truth",
    "Voice",
    "Volumes",
    "Workspaces",
]
