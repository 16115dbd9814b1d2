"""`/livez`, `/readyz` and `/metrics` of a service, on a listener of their own.

Live: a restart would not help. Ready: it can do its work now. Both are judged by what is seen, not by what was
configured, and answered by a thread of its own, so that an event loop which stands still cannot keep it secret.
"""

from shared.probes.dial import ServerWatch, place_of
from shared.probes.health import Health
from shared.probes.serve import nats_problem, note_contact_often, probed

__all__ = ["Health", "ServerWatch", "nats_problem", "note_contact_often", "place_of", "probed"]
