"""One table of every bound that a client can meet. `docs/limits.md` is made from it."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 256 * 1024
"""Body of a published task. Larger inputs travel by reference."""
ARGV_ITEMS_MAX: Final = 256
"""Words of a command."""
ENV_ITEMS_MAX: Final = 64
"""Environment variables given with a task."""
ENV_NAME_LENGTH_MAX: Final = 128
"""Characters in the name of an environment variable."""
ENV_VALUE_LENGTH_MAX: Final = 16 * 1024
"""Characters in the value of an environment variable."""
FILES_MAX: Final = 64
"""Input files given with a task."""
PATH_LENGTH_MAX: Final = 1024
"""Characters of a path in the workspace."""
TIMEOUT_S_MAX: Final = 24 * 3600
"""Longest run of one task, seconds."""
DEADLINE_S_MAX: Final = 24 * 3600
"""Longest time from acceptance to the end of a task, seconds. Older plain messages are never run."""
RESULT_OUTPUT_BYTES_MAX: Final = 64 * 1024
"""Bytes of stdout, and again of stderr, kept in a result; the newest are kept."""
OUTPUT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of output of one task that are streamed and stored; what follows is dropped and marked."""
READ_BYTES_MAX: Final = 128 * 1024
"""Bytes that one `read` task returns; larger files are read in pieces."""
FILE_BYTES_MAX: Final = 1 << 44
"""Offset in a file that a `read` task may name; no workspace is larger."""
LIST_ENTRIES_MAX: Final = 1000
"""Entries that one `list` task returns."""
LANE_MESSAGES_MAX: Final = 20_000
"""Messages that one tenant may have waiting in one lane (pool and class) and shard."""
QUEUE_BYTES_MAX: Final = 512 * 1024 * 1024
"""Messages that wait in one queue shard, all tenants together; then publishes are refused."""
INBOX_ENTRIES_MAX: Final = 1_000
"""Tasks that may wait in one session's inbox; the newest above it are rejected (`limit`)."""
TENANT_INBOX_ENTRIES_MAX: Final = 10_000
"""Tasks of one tenant that may wait in all its inboxes of one shard; from the longest inboxes the newest are rejected
(`limit`)."""
INBOX_MESSAGES_MAX: Final = 200_000
"""Tasks that may wait in one inbox shard, all tenants together; then publishes are refused."""
INBOX_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The same in bytes."""
TENANT_SESSIONS_MAX: Final = 10_000
"""Sessions of one tenant that have not ended. Above it new ones are rejected (`limit`) by the worker that would have
run them."""
CANCELS_AHEAD_MAX: Final = 1_000
"""Cancels of tasks that are not published yet, in ten minutes and of one tenant, that one pool-manager remembers;
further ones are refused."""
PUBLISHES_MAX: Final = 512
"""Publishes of one client that are under way at once; further ones wait, at most as long as a publish may take."""
DEAD_LETTERS_MAX: Final = 1_000
"""Dead letters kept of one tenant and pool; the oldest go first."""
INTERRUPTIONS_KEPT: Final = 8
"""Interruptions of one task that its record remembers."""
DEATHS_MAX: Final = 3
"""Deaths of the worker process in the same task, its node alive, after which the session is poison."""
ASK_ITEMS_MAX: Final = 500
"""Sessions in one page of a listing."""
ENDED_KEPT_S: Final = 48 * 3600
"""Seconds for which ended records and results are kept: the horizon within which a task id runs once."""
