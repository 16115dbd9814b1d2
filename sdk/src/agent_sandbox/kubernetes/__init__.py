"""A cluster on Kubernetes as its user sees it: how it is reached, and what is wrong with it. Through `kubectl`."""
