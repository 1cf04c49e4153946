# SPDX-License-Identifier: Apache-2.0
# A server's image. From the root of the repository:
#
#   docker build -f deploy/docker/server.Dockerfile -t farcall-server .
#   docker run --gpus all -p 7717:7717 -v /etc/farcall/token:/run/secrets/farcall:ro farcall-server
#
# The driver comes from the host through NVIDIA's container toolkit. Without a GPU add `--device cpu` at the end: the CPU device is in the image.
FROM debian:12 AS build
WORKDIR /src
COPY . .
RUN ./scripts/build release --target product \
 && cmake --install build/release --prefix /opt/farcall --strip

FROM debian:12-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends libstdc++6 libzstd1 liblz4-1 zlib1g libgrpc++1.51 libprotobuf32 libprometheus-cpp-pull1.0 libsqlite3-0 libcpp-httplib0.11 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/farcall /opt/farcall
# compute: libcuda; utility: NVML.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --system --no-create-home farcall
USER farcall
EXPOSE 7717
# A server refuses to listen beyond loopback without a token.
ENTRYPOINT ["/opt/farcall/bin/farcall", "serve", "--listen", "tcp://0.0.0.0:7717", "--token-file", "/run/secrets/farcall"]
