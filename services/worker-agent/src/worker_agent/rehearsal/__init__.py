"""A worker's whole life, played through in the zygote before anything is forked.

Each forked worker pays for the pages that it is the first to write: code that runs for the first time is specialised by
the interpreter in place, caches are filled, counters move. Played through beforehand, all of that lies in pages that
300 idle workers share, and their first real task runs on warm code (measured: 0.9 MiB and some milliseconds less for
each). The peers are stand-ins on loopback; nothing real is touched, and nothing of it is kept but warm code.
"""

from worker_agent.rehearsal.play import rehearse

__all__ = ["rehearse"]
