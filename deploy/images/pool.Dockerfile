# SPDX-License-Identifier: Apache-2.0
# A pool's controller.
#   ./scripts/package --deb
#   docker build -f deploy/images/pool.Dockerfile -t farcall-pool build/package/out
#   docker run -p 7718:7718 -p 7719:7719 -p 7720:7720 -v pool:/var/lib/farcall-pool \
#     -v /etc/farcall:/etc/farcall:ro farcall-pool --token-file /etc/farcall/operator.token \
#     --tls-cert /etc/farcall/pool.pem --tls-key /etc/farcall/pool.key
ARG BASE=debian:12-slim
FROM ${BASE}
COPY farcall-client_*.deb farcall-pool_*.deb /packages/
RUN apt-get update \
 && apt-get install -y --no-install-recommends /packages/*.deb \
 && rm -rf /packages /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log \
 && useradd --system --uid 7717 --home-dir /var/lib/farcall-pool --create-home farcall
USER 7717
VOLUME /var/lib/farcall-pool
EXPOSE 7718 7719 7720
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/7721; printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3; grep -q ' 200 ' <&3"]
ENTRYPOINT ["farcall", "pool", "serve", "--store", "/var/lib/farcall-pool/pool.db", \
  "--listen", "0.0.0.0:7718", "--rest", "0.0.0.0:7719", "--grpc", "0.0.0.0:7720"]
