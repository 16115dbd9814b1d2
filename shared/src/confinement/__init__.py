"""What keeps untrusted code in: the calls that a confined process is made with. Standard library only.

It runs in the processes that become sandboxes, forked by a node's zygote or started as a container's first: nothing of
`shared` is imported here. `syscalls` and `seccomp` are pure, `linux` makes the calls, `harden` and `landlock` are what each
sandbox gives up.
"""
