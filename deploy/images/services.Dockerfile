# All services and the command line. Which of them runs is the pod's command: `python -m pool_manager`, …
# Built at the repository's root: docker build -f deploy/images/services.Dockerfile .
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
COPY requirements.lock deploy/images/services.lock /build/
# A virtual environment is copied whole: where site-packages are differs between distributions. One dependency comes
# without a wheel: what builds it is installed first, from the same lock.
RUN python3 -m venv /opt/agent-sandbox \
    && awk '/^setuptools==/ { found = 1 } found { print } found && !/\\$/ { exit }' /build/requirements.lock >/build/first.lock \
    && for lock in first services; do \
        /opt/agent-sandbox/bin/pip install -q --no-cache-dir --disable-pip-version-check \
            --no-deps --no-build-isolation --require-hashes -r "/build/$lock.lock" || exit 1; done \
    && /opt/agent-sandbox/bin/pip uninstall -q -y setuptools pip \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/agent-sandbox/lib
COPY shared/src sdk/src services/checkpointer/src services/client-edge/src services/gateway/src services/pool-manager/src services/volume-keeper/src /opt/agent-sandbox/app/
RUN /opt/agent-sandbox/bin/python -m compileall -q /opt/agent-sandbox/app

FROM ${BASE}
COPY --from=build /opt/agent-sandbox /opt/agent-sandbox
ENV PATH=/opt/agent-sandbox/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/agent-sandbox/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /
USER 1001:1001
CMD ["python", "-m", "agent_sandbox.cli", "--help"]
