"""Under which names the gateway may be asked, and from which web pages."""

from __future__ import annotations

from collections.abc import Collection


def host_name(host: str) -> str:
    """Return the name in a `Host` header, in lower case and without the port; empty where it is none."""
    name, colon, port = host.strip().lower().rpartition(":")
    if colon and port.isdigit() and (":" not in name or name.endswith("]")):
        return name
    whole = host.strip().lower()
    return whole if ":" not in whole or whole.endswith("]") else ""


def is_named_here(host: str, hosts: Collection[str]) -> bool:
    """Return whether `host`, a `Host` header, is one of the gateway's own names.

    A page that makes a name of its own point here (DNS rebinding) is told apart by that name alone.
    """
    return host_name(host) in hosts


def may_ask(origin: str | None, host: str, origins: Collection[str]) -> bool:
    """Return whether a page of `origin` may ask: none (no browser), the gateway's own, or one that is allowed."""
    if origin is None:
        return True
    said = origin.strip().lower()
    own = host.strip().lower()
    return said in origins or said in (f"http://{own}", f"https://{own}")
