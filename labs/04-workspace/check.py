"""The check: the analysis comes to its end without its user, as if nothing had died."""

from labs.frame import Need, checked

NEEDS = (
    Need("files_missing_or_wrong", "every file is as in a run without a fault", at_most=0),
    Need("steps_that_failed", "no step fails for what a dead pod took with it", at_most=0),
    Need("steps_to_do_again", "what was finished is not done again", at_most=0),
    Need("pod_killed_went_on_s", "a killed pod's session goes on elsewhere", at_most=30),
    Need("node_killed_went_on_s", "a killed node's session goes on elsewhere", at_most=30),
)

if __name__ == "__main__":
    checked(NEEDS, __file__)
