"""The check: the chaos lab's checkers have nothing to say against the history."""

from labs.frame import Need, checked

NEEDS = (
    Need("verdict_is_true", "the history is whole, and nothing in it must not be", at_least=1),
    Need("lost", "what was acknowledged is there", at_most=0),
    Need("dup", "no task is done twice by two who both count", at_most=0),
    Need("tasks_done", "and work is done meanwhile", at_least=40),
)

if __name__ == "__main__":
    checked(NEEDS, __file__)
