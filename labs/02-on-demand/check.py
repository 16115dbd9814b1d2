"""The check: a start costs a fraction of what it did, and many of them at once are still served."""

from labs.frame import Need, checked

NEEDS = (
    Need(
        "alone_in_bare_starts",
        "a sandbox on demand costs hardly more than an interpreter that starts",
        at_most=15,
    ),
    Need(
        "top_rate_p95_in_bare_starts", "many at once are served, and do not queue up", at_most=100
    ),
)

if __name__ == "__main__":
    checked(NEEDS, __file__)
