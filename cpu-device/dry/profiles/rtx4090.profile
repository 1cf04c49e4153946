# SPDX-License-Identifier: Apache-2.0
# NVIDIA GeForce RTX 4090: the card's public data sheet, and the programming guide's table for 8.9. The memory is about what CUDA tells of one.
card = RTX 4090 24GB
compute_capability = 8.9
memory = 24208MiB
multiprocessors = 128
threads_per_multiprocessor = 1536
blocks_per_multiprocessor = 24
shared_per_block_optin = 99KiB
shared_per_multiprocessor = 100KiB
clusters = no
l2 = 72MiB
clock_mhz = 2520
memory_clock_mhz = 10501
memory_bus_bits = 384
copy_engines = 2
single_to_double = 64
