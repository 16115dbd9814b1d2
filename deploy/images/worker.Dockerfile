# The trusted half of a worker pod: the worker-agent.
# Built at the repository's root: docker build -f deploy/images/worker.Dockerfile .
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
COPY requirements.lock deploy/images/worker.lock /build/
# A virtual environment is copied whole: where site-packages are differs between distributions. One dependency comes
# without a wheel: what builds it is installed first, from the same lock.
RUN python3 -m venv /opt/agent-sandbox \
    && awk '/^setuptools==/ { found = 1 } found { print } found && !/\\$/ { exit }' /build/requirements.lock >/build/first.lock \
    && for lock in first worker; do \
        /opt/agent-sandbox/bin/pip install -q --no-cache-dir --disable-pip-version-check \
            --no-deps --no-build-isolation --require-hashes -r "/build/$lock.lock" || exit 1; done \
    && /opt/agent-sandbox/bin/pip uninstall -q -y setuptools pip
# The folder itself is the program: started without the site module, which would look for much that is not there. What the
# sidecar shares with the sandbox's runner is the words between them.
RUN mkdir /opt/worker && cp -r /opt/agent-sandbox/lib/python3*/site-packages/. /opt/worker/
COPY shared/src services/worker-agent/src /opt/worker/
COPY services/worker-agent/src/worker_agent/sidecar/__main__.py /opt/worker/
RUN rm -r /opt/worker/sandbox_init /opt/worker/shared/testing \
    && python3 -X no_debug_ranges -m compileall -q -f -j 0 --invalidation-mode unchecked-hash /opt/worker

FROM ${BASE}
COPY --from=build /opt/worker /opt/agent-sandbox/worker
ENV PYTHONDONTWRITEBYTECODE=1
WORKDIR /
USER 1001:2000
ENTRYPOINT ["python3", "-I", "-S", "/opt/agent-sandbox/worker"]
