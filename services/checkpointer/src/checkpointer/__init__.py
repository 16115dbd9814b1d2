"""One process a node that saves and restores workspaces: snapshots outlive the pods that made them."""
