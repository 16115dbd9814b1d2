"""A node on this machine: forks warm pods from zygotes and confines their sandboxes."""
