"""The embedded cluster: broker, services and nodes as processes of this machine, kept alive by one supervisor.

`up` starts the supervisor in the background and waits until workers are warm; `down` ends everything; `status` says
what runs. All state lies in one folder, and a second `up` finds it again.
"""
