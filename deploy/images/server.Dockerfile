# SPDX-License-Identifier: Apache-2.0
# A GPU host: the server, the agent by which it joins a pool, and the software devices.
#   ./scripts/package --deb
#   docker build -f deploy/images/server.Dockerfile -t farcall-server build/package/out
#   docker run --gpus all -p 7717:7717 -v /etc/farcall:/etc/farcall:ro farcall-server
#
# NVIDIA's driver comes from the host through its container toolkit. Without a GPU, append
# `--device cpu`. The server reads /etc/farcall/server.toml; compose.yaml shows the whole.
ARG BASE=debian:12-slim
FROM ${BASE}
COPY farcall-client_*.deb farcall-server_*.deb farcall-pool_*.deb farcall-cpu-device_*.deb /packages/
# The package keeps a user farcall that is there already.
RUN useradd --system --uid 7717 --home-dir /var/lib/farcall --create-home farcall \
 && apt-get update \
 && apt-get install -y --no-install-recommends /packages/*.deb \
 && rm -rf /packages /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log \
 && install -d -o farcall -g farcall -m 700 /run/farcall
USER 7717
# compute: libcuda; utility: NVML.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    FARCALL_CACHE_DIR=/var/lib/farcall FARCALL_RUN_DIR=/run/farcall
VOLUME /var/lib/farcall
EXPOSE 7717
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["farcall", "ps", "--json"]
ENTRYPOINT ["farcall", "serve", "--config", "/etc/farcall/server.toml"]
