"""One table of every bound that a client can meet. `docs/limits.md` is made from it.

What each says after "Above:" is what becomes of whoever passes it.
"""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 256 * 1024
"""Body of a published task. Larger inputs travel by reference. Above: the publish is refused; less than 8 KiB above,
where the servers leave room for headers, the task is `rejected` (`invalid`)."""
ARGV_ITEMS_MAX: Final = 256
"""Words of a command. Above: the task is `rejected` (`invalid`)."""
ENV_ITEMS_MAX: Final = 64
"""Environment variables given with a task. Above: the task is `rejected` (`invalid`)."""
ENV_NAME_LENGTH_MAX: Final = 128
"""Characters in the name of an environment variable. Above: the task is `rejected` (`invalid`)."""
ENV_VALUE_LENGTH_MAX: Final = 16 * 1024
"""Characters in the value of an environment variable. Above: the task is `rejected` (`invalid`)."""
FILES_MAX: Final = 64
"""Input files given with a task. Above: the task is `rejected` (`invalid`)."""
TERMINAL_SIDE_MAX: Final = 1_000
"""Rows, and again columns, of a terminal. Above: the task is `rejected` (`invalid`), the change of size is refused."""
TERMINAL_TYPE_LENGTH_MAX: Final = 64
"""Characters in the name of a terminal's type (`TERM`). Above: the task is `rejected` (`invalid`)."""
TERMINAL_INPUT_BYTES_MAX: Final = 64 * 1024
"""Bytes typed into a terminal that its program has not taken yet. Above: the answer says so, and the client holds them."""
TERMINAL_WRITERS_MAX: Final = 16
"""Clients that type into one terminal. Above: the one that was silent for longest is forgotten and told so."""
TERMINAL_OUTPUT_BYTES_PER_S_MAX: Final = 256 * 1024
"""Bytes a second that a terminal shows once it has shown as much as any task may. Above: its program waits."""
TERMINAL_IDLE_S_MAX: Final = 24 * 3600
"""Seconds for which a terminal may be left alone (`tty.idle_s`): then it is hung up. Above: the task is `rejected`
(`invalid`)."""
PATH_LENGTH_MAX: Final = 1024
"""Characters of a path in the workspace. Above: the task is `rejected` (`invalid`)."""
START_AGAIN_S: Final = 2
"""Seconds for which the start of a task is tried again that finds no room for a process, because others of its session, or
of its node's user, run as many as may. Above: the task is `failed` (`exec`), nothing of it ran."""
TIMEOUT_S_MAX: Final = 24 * 3600
"""Longest run of one task, seconds. Above: the task is `rejected` (`invalid`)."""
DEADLINE_S_MAX: Final = 24 * 3600
"""Longest time from acceptance to the end of a task, seconds. Older plain messages are never run. Above: the task is
`rejected` (`invalid`)."""
RESULT_OUTPUT_BYTES_MAX: Final = 64 * 1024
"""Bytes of stdout, and again of stderr, kept in a result; the newest are kept. Above: the oldest are left out, and
`truncated` says so."""
OUTPUT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of output of one task that are streamed and stored. Above: the event `truncated`."""
READ_BYTES_MAX: Final = 128 * 1024
"""Bytes that one `read` task returns; larger files are read in pieces. Above: the task is `rejected` (`invalid`)."""
FILE_BYTES_MAX: Final = 1 << 44
"""Offset in a file that a `read` task may name; no workspace is larger. Above: the task is `rejected` (`invalid`)."""
OBJECT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Content of one object: an input or output that travels by reference. Above: the transfer is refused, a task that names
a larger one is `rejected` (`invalid`)."""
OBJECT_CHUNK_BYTES_MAX: Final = 256 * 1024
"""One chunk of an object: a message of its own. Above: the chunk is refused."""
OBJECT_CHUNKS_MAX: Final = 32_768
"""Chunks of one object; small chunks bound its size as well. Above: the task is `rejected` (`invalid`)."""
OBJECT_STORE_BYTES_MAX: Final = 6 * 1024 * 1024 * 1024
"""Objects of all tenants together; they go after 48 h, if not before. Above: the chunk is refused."""
TENANT_OBJECT_BYTES_MAX: Final = 5 * 1024 * 1024 * 1024
"""Objects of one tenant. Above: the oldest go."""
PACK_STORE_BYTES_MAX: Final = 24 * 1024 * 1024 * 1024
"""Packs of workspaces of all tenants together, where the NATS servers keep them. Above: the checkpoint is refused, and
the task's result stays `saving` until there is room."""
OUTPUTS_MAX: Final = 16
"""Files that a task may put into the object store when it has run. Above: the task is `rejected` (`invalid`)."""
ARCHIVE_ENTRIES_MAX: Final = 500_000
"""Members of one archive, into the workspace or out of it. Above: the task fails (`limit`)."""
LIST_ENTRIES_MAX: Final = 1000
"""Entries that one `list` task returns. Above: the listing is cut, and `truncated` says so."""
LANE_MESSAGES_MAX: Final = 20_000
"""Messages that one tenant may have waiting in one lane (pool and class) and shard. Above: the publish is refused."""
QUEUE_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes that wait in one queue shard, all tenants together. Above: the publish is refused."""
INBOX_ENTRIES_MAX: Final = 1_000
"""Tasks that may wait in one session's inbox. Above: the newest are `rejected` (`limit`)."""
TENANT_INBOX_ENTRIES_MAX: Final = 10_000
"""Tasks of one tenant that may wait in all its inboxes of one shard. Above: of the longest inboxes the newest are
`rejected` (`limit`)."""
INBOX_MESSAGES_MAX: Final = 200_000
"""Tasks that may wait in one inbox shard, all tenants together. Above: the publish is refused."""
INBOX_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The same in bytes. Above: the publish is refused."""
TENANT_SESSIONS_MAX: Final = 10_000
"""Sessions of one tenant that have not ended. Above: new ones are `rejected` (`limit`)."""
TENANT_CONNECTIONS_MAX: Final = 256
"""Connections of one tenant's clients at each client edge. Above: the new one is turned away, with the reason; another
edge may take it."""
TENANT_HALF_SENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of one tenant's messages that have arrived in part, at each client edge. Above: the connection that passes it is
ended, with the reason."""
CANCELS_AHEAD_MAX: Final = 1_000
"""Cancels of tasks that are not published yet, of one tenant in ten minutes, that one pool-manager remembers. Above:
the cancel is refused."""
PUBLISHES_MAX: Final = 512
"""Publishes of one client that are under way at once. Above: the next one waits; without a turn in the time of a
publish it is refused."""
DEAD_LETTERS_MAX: Final = 1_000
"""Dead letters kept of one tenant and pool. Above: the oldest go."""
CHECKPOINT_JOBS_MAX: Final = 1_024
"""Saves and restores that one node's checkpointer has under way or waiting at once. Above: the next one is `unavailable`
and asked for again later."""
TRANSFER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of snapshots that are on their way between one node and its store at once, of all sessions together, unless its
checkpointer is told otherwise (`CHECKPOINTER_TRANSFER_BYTES`). Above: the next pack waits for its turn."""
SNAPSHOT_NAME_LENGTH_MAX: Final = 64
"""Characters in the name of a snapshot. Above: the request is refused."""
SNAPSHOTS_NAMED_MAX: Final = 32
"""Snapshots of one session that are kept by a name. Above: the next name is refused."""
FORKS_MAX: Final = 100
"""Forks of one session that have not ended. Above: the next one is refused."""
DIFF_CHANGES_MAX: Final = 100_000
"""Differences between two snapshots that can be paged through. Above: the last page is the end, and `truncated` says so."""
EXCLUDES_MAX: Final = 64
"""Patterns of a pool for files that no snapshot holds. Above: the pools' file is refused."""
EXCLUDE_LENGTH_MAX: Final = 256
"""Characters of one of them. Above: the pools' file is refused."""
INTERRUPTIONS_KEPT: Final = 8
"""Interruptions of one task that its record remembers. Above: the oldest are forgotten."""
DEATHS_MAX: Final = 3
"""Deaths of the worker process in the same task, its node alive, that make its session `poison`. Above: none, it has ended."""
TRACESTATE_LENGTH_MAX: Final = 512
"""Characters of a `tracestate` header that go on with a task's trace. Above: it is left out, its `traceparent` stays."""
ASK_ITEMS_MAX: Final = 500
"""Sessions in one page of a listing. Above: the request is refused."""
CHECKPOINT_PAUSE_S_MAX: Final = 2
"""Seconds for which user code stands still for a checkpoint in the middle of its task. Above: it goes on, and that
checkpoint is dropped."""
ENDED_KEPT_S: Final = 48 * 3600
"""Seconds for which ended records and results are kept: the horizon within which a task id runs once. Above: they
are removed."""
WORKSPACE_ENTRIES_MAX: Final = 2_000_000
"""Files, directories and links of one workspace. Above: no snapshot is taken, the last good one stays."""
WORKSPACE_BYTES_MAX: Final = 64 * 1024 * 1024 * 1024
"""Bytes in the files of one workspace, holes left out. Above: no snapshot is taken, the last good one stays."""
WORKSPACE_FILE_BYTES_MAX: Final = 32 * 1024 * 1024 * 1024
"""Bytes of one file of a workspace, holes left out. Above: no snapshot is taken, the last good one stays."""
WORKSPACE_SPARSE_BYTES_MAX: Final = 1 << 40
"""The same with its holes. Above: no snapshot is taken, the last good one stays."""
WORKSPACE_PATH_BYTES_MAX: Final = 64 * 1024
"""Bytes of a path in a workspace. Above: no snapshot is taken, the last good one stays."""
WORKSPACE_PATHS_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes of all paths in a workspace. Above: no snapshot is taken, the last good one stays."""
WORKSPACE_DEPTH_MAX: Final = 1_024
"""Directories within one another. Above: no snapshot is taken, the last good one stays."""
WORKSPACE_FOLDER_ENTRIES_MAX: Final = 500_000
"""Entries of one directory of a workspace. Above: no snapshot is taken, the last good one stays."""
WORKSPACE_XATTR_BYTES_MAX: Final = 64 * 1024
"""Bytes of names and values of one file's extended attributes (`user.*`; others are not kept). Above: no snapshot is
taken, the last good one stays."""
WORKSPACE_XATTRS_BYTES_MAX: Final = 64 * 1024 * 1024
"""The same of all files together that changed since the last snapshot. Above: no snapshot is taken, the last good one
stays."""
