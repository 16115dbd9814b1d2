"""What an answer of the API server means. Pure."""

from __future__ import annotations

import msgspec

from shared.errors import (
    Conflict,
    Forbidden,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)


class Outdated(Rejected):
    """The resource version is too old (410): list again."""

    code = "outdated"


class _Status(msgspec.Struct):
    """The part of the API server's own error that matters."""

    message: str = ""
    reason: str = ""


_decoder = msgspec.json.Decoder(_Status)
SAID_MAX = 500
"""Characters of the server's text that we pass on."""
QUOTA = "exceeded quota"


def refusal(status: int, body: bytes, *, writes: bool) -> ServiceError:
    """Return what a status other than 2xx stands for.

    Args:
        status: of HTTP.
        body: a `Status` of the API, or a proxy's page.
        writes: the request was to change something: then an error of the server leaves open whether it did.
    """
    try:
        text = _decoder.decode(body).message[:SAID_MAX]
    except msgspec.MsgspecError:
        text = ""
    text = text or f"the Kubernetes API answered {status}"
    match status:
        case 400 | 422:
            return InvalidMessage(text)
        case 401:
            return Unavailable(f"the Kubernetes API does not know this credential: {text}")
        case 403 if QUOTA in text:
            return LimitExceeded(text)
        case 403:
            return Forbidden(text)
        case 404:
            return NotFound(text)
        case 409:
            return Conflict(text)
        case 410:
            return Outdated(text)
        case 413:
            return LimitExceeded(text)
        case 429:
            return Unavailable(text)
        case _ if status < 500:
            return Rejected(text)
        case _:
            return OutcomeUnknown(text) if writes else Unavailable(text)
