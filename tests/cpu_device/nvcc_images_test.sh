#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unmodified programs in the forms nvcc writes kernel images, on the device's libcuda.so.1.
# Usage: nvcc_images_test.sh NVCC SOURCE DEVICE_DIR WORK_DIR
set -eu
nvcc=$1 source=$2 device=$3 work=$4
mkdir -p "$work"
failed=0

# check NAME EXPECTED FLAGS...: builds once, runs, compares the error number printed.
check() {
  name=$1 expected=$2
  shift 2
  if [ ! -x "$work/$name" ] || [ "$source" -nt "$work/$name" ]; then
    env -u LD_PRELOAD "$nvcc" "$@" -o "$work/$name" "$source"
  fi
  got=$(LD_LIBRARY_PATH=$device FARCALL_LOG=off "$work/$name")
  if [ "$got" != "$expected" ]; then
    echo "$name ($*): error $got, want $expected"
    failed=1
  fi
}

check zstd 0
check lz4 0 -Xfatbin --compress-mode=speed
check plain 0 -Xfatbin --compress-mode=none
check newest 0 -gencode arch=compute_80,code=compute_80 -gencode arch=compute_90,code=compute_90
check machine_code_only 209 -gencode arch=compute_80,code=sm_80
check per_thread_stream 0 -default-stream per-thread
check debug 0 -G
source=$(dirname "$source")/managed.cu
check managed 0
source=$(dirname "$source")/units.cu
other=$(dirname "$source")/units_other.cu
check units 0 -rdc=true "$other"
check units_ptx 0 -rdc=true -gencode arch=compute_80,code=compute_80 "$other"
exit $failed
