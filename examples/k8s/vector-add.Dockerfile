# SPDX-License-Identifier: Apache-2.0
# The program alone: libcuda.so.1 comes from the node. vector_add is linked with the static CUDA runtime.
FROM nvidia/cuda:13.0.0-devel-ubuntu24.04 AS build
COPY check.cuh vector_add.cu /examples/
RUN nvcc -O2 /examples/vector_add.cu -o /vector_add
FROM ubuntu:24.04
COPY --from=build /vector_add /vector_add
ENTRYPOINT ["/vector_add"]
