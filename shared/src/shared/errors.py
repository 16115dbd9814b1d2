"""Every error that crosses a module border, and whether the thing surely did not happen.

ServiceError                       never raised itself
  Rejected      definite: did not, will not happen
    InvalidMessage                 cannot decode, unknown version      -> dead letter, terminal result
    StaleEpoch                     a newer owner exists                -> stop the attempt at once, no retry
    AlreadyDone                    same id was applied before          -> use the stored result
    Conflict                       compare-and-set lost                -> re-read, decide again (bounded)
    NotFound                       no such thing, nobody listens       -> tell the caller
    Forbidden                      the credential does not allow it    -> tell the caller
    LimitExceeded                  size, count, quota                  -> tell the caller which limit
    Damaged                        stored bytes are not those written  -> do without them, and say so
  Unavailable   definite: not now
    Draining                       this process is leaving             -> ask another
  OutcomeUnknown  indefinite: may have happened (timeout, connection lost) -> retry only under the same id
InvariantBroken (not a ServiceError): our bug; never caught in a loop

`definite` answers one question: did the thing surely *not* happen? In doubt an adapter raises `OutcomeUnknown`.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as it travels in a message."""

    code: str
    """Stable, machine-readable name, such as `limit_exceeded`."""
    message: str
    """One sentence for people; names the field and the limit where there is one."""
    definite: bool = True
    """True: it surely did not happen. False: it may have happened."""


class ServiceError(Exception):
    """Root of all errors that a caller may handle."""

    code: ClassVar[str] = "service_error"
    definite: ClassVar[bool] = True

    def info(self) -> ErrorInfo:
        """Return the error in the form that travels in messages."""
        return ErrorInfo(code=self.code, message=str(self), definite=self.definite)


class Rejected(ServiceError):
    """It did not happen and will not, however often it is asked."""

    code = "rejected"


class InvalidMessage(Rejected):
    """The message cannot be read: bad JSON, unknown version, a field out of its limit."""

    code = "invalid_message"


class StaleEpoch(Rejected):
    """A newer owner exists: whoever acted under the old epoch must stop at once."""

    code = "stale_epoch"


class AlreadyDone(Rejected):
    """The same id was applied before; the stored result holds."""

    code = "already_done"


class Conflict(Rejected):
    """A compare-and-set lost against another writer."""

    code = "conflict"


class NotFound(Rejected):
    """There is no such thing, or nobody listens to that subject."""

    code = "not_found"


class Forbidden(Rejected):
    """The credential in use does not allow it."""

    code = "forbidden"


class LimitExceeded(Rejected):
    """A size, count or quota was passed; the message names which."""

    code = "limit_exceeded"


class Damaged(Rejected):
    """Stored bytes are not what was written: a hash, a magic number, a count or a name is wrong. Names what and where."""

    code = "damaged"


class Unavailable(ServiceError):
    """It did not happen now; later it may."""

    code = "unavailable"


class Draining(Unavailable):
    """The process that was asked is leaving and takes nothing new."""

    code = "draining"


class OutcomeUnknown(ServiceError):
    """It may have happened: the answer is missing. Ask again only under the same id."""

    code = "outcome_unknown"
    definite = False


class InvariantBroken(Exception):
    """Our own bug: a state that the rules exclude. Never caught in a loop."""


def error_of(info: ErrorInfo) -> ServiceError:
    """Return the exception that an error in an answer stands for; a code that is not known keeps its definiteness."""
    kinds: list[type[ServiceError]] = [ServiceError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        known = kind.code == info.code and kind.definite == info.definite
        if (
            known and kind.__init__ is ServiceError.__init__
        ):  # else it is made of more than a message
            return kind(info.message)
    return Rejected(info.message) if info.definite else OutcomeUnknown(info.message)
