# What untrusted code sees: Python, a shell, and the runner. Derive your own from it: FROM agent-sandbox/sandbox, then
# `USER root`, what your tasks need, `USER 1000:2000`.
# Built at the repository's root: docker build -f deploy/images/sandbox.Dockerfile .
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
COPY services/worker-agent/src/sandbox_init /opt/agent-sandbox/sandbox/sandbox_init
COPY services/worker-agent/src/sandbox_runner /opt/agent-sandbox/sandbox/sandbox_runner
COPY shared/src/confinement /opt/agent-sandbox/sandbox/confinement
# The folder itself is the program: the interpreter is started without site-packages, and finds the rest beside it.
COPY services/worker-agent/src/sandbox_init/__main__.py /opt/agent-sandbox/sandbox/
RUN python3 -X no_debug_ranges -m compileall -q --invalidation-mode unchecked-hash /opt/agent-sandbox/sandbox

FROM ${BASE}
COPY --from=build /opt/agent-sandbox /opt/agent-sandbox
ENV PYTHONDONTWRITEBYTECODE=1
WORKDIR /workspace
USER 1000:2000
ENTRYPOINT ["python3", "-I", "-S", "/opt/agent-sandbox/sandbox"]
