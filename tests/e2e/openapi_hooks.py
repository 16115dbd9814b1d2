"""For schemathesis: no request waits for long, since what is looked at are answers, not patience."""

from __future__ import annotations

from typing import Any

import schemathesis

WAIT_S = 0.2
WAIT_S_MAX = 60


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Shorten waits that are good ones; bad ones are to be refused."""
    names = {parameter.name for parameter in case.operation.query}
    if "wait_s" not in names:
        return
    query = case.query if case.query is not None else {}
    said = query.get("wait_s", WAIT_S_MAX)
    try:
        is_long = WAIT_S < float(said) <= WAIT_S_MAX
    except (TypeError, ValueError):
        return
    if is_long:
        query["wait_s"] = WAIT_S
        case.query = query
