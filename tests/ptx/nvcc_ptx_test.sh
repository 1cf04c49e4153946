#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles CUDA C++ to PTX for several targets and flags; the parser must read every image and every function body.
#   nvcc_ptx_test.sh NVCC PTX_SCAN OUTPUT_DIR SOURCE.cu...
set -eu
nvcc=$1 scan=$2 out=$3
shift 3
rm -rf "$out"
mkdir -p "$out"
count=0
for source in "$@"; do
  for flags in "-arch=sm_75 -G" "-arch=sm_80 -lineinfo" "-arch=sm_90a" "-arch=sm_120 -rdc=true"; do
    count=$((count + 1))
    # shellcheck disable=SC2086  # the flags are words
    "$nvcc" -std=c++17 $flags -ptx -o "$out/$(basename "$source" .cu)_$count.ptx" "$source"
  done
done
"$scan" "$out"/*.ptx
