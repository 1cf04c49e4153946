# SPDX-License-Identifier: Apache-2.0
# The client: the farcall command and the drop-in libraries. A base for images of programs.
#   ./scripts/package --deb
#   docker build -f deploy/images/client.Dockerfile -t farcall-client build/package/out
ARG BASE=debian:12-slim
FROM ${BASE}
COPY farcall-client_*.deb /packages/
RUN apt-get update \
 && apt-get install -y --no-install-recommends /packages/*.deb \
 && rm -rf /packages /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log \
 && useradd --system --uid 7717 --home-dir /var/lib/farcall --create-home farcall
USER 7717
ENV FARCALL_CACHE_DIR=/var/lib/farcall
ENTRYPOINT ["farcall", "run", "--"]
