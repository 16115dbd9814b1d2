"""The first process of a sandbox's container: connects to the sidecar, confines itself, and is the runner from then on.

A node's zygote does the same for a forked sandbox (`local_node.adapters.confine`); here there is nobody to do it from
outside. Standard library only.
"""
