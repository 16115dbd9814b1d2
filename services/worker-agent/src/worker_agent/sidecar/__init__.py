"""The worker as a container of a pod, where nobody forks it: reads where it is, asks for its credential, takes its sandbox.

`boot` is the entry and imports the standard library alone: the sandbox's container finds its socket, and a restarted sidecar
its end, before anything heavy is loaded. `docs/kubernetes-pods.md` has the whole form of the pod.
"""
