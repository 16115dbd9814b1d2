"""The check: what one session does is no other's affair."""

from labs.frame import Need, checked

NEEDS = (
    Need(
        "slowest_beside_busy_ms",
        "a small task never waits for a busy neighbour",
        at_most=4000,
    ),
    Need("secrets_read", "a curious task finds nothing that is not its own", at_most=0),
    Need("others_lost_to_one_oom", "who takes too much memory dies alone", at_most=0),
)

if __name__ == "__main__":
    checked(NEEDS, __file__)
