"""`doctor`: what this machine has for an embedded cluster, what is missing, and what to do about it.

`facts` looks, `judge` says what it means.
"""
