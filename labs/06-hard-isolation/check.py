"""The check: nothing gets out of the strongest class that this machine has."""

from labs.frame import Need, checked

NEEDS = (
    Need("not_contained", "no attack gets through", at_most=0),
    Need("attacks", "and all of them were tried", at_least=23),
)

if __name__ == "__main__":
    checked(NEEDS, __file__)
