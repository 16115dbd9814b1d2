#!/bin/sh
# Publishes a one-shot to the cluster of the current context and shows its output. $TASK_POOL, $TASK_COMMAND: what.
set -eu
cd "$(dirname "$0")/../.."
exec ./dev cli run --context . --pool "${TASK_POOL:-default}" --shell "${TASK_COMMAND:-echo hello from a sandbox}"
