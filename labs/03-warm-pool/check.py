"""The check: hardly anybody waits for a pod, and the pods that wait are not without number."""

from labs.frame import Need, checked

NEEDS = (
    Need("cold_share", "hardly any request waits for a pod to start", at_most=0.25),
    Need("p50_ms", "the median user waits milliseconds", at_most=500),
    Need("idle_pods", "no more pods idle than the demand asks for", at_most=12),
)

if __name__ == "__main__":
    checked(NEEDS, __file__)
