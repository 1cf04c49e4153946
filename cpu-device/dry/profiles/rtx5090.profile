# SPDX-License-Identifier: Apache-2.0
# NVIDIA GeForce RTX 5090: the card's public data sheet, and the programming guide's table for 12.0. The memory is about what CUDA tells of one.
card = RTX 5090 32GB
compute_capability = 12.0
memory = 32112MiB
multiprocessors = 170
threads_per_multiprocessor = 1536
blocks_per_multiprocessor = 24
shared_per_block_optin = 99KiB
shared_per_multiprocessor = 100KiB
clusters = yes
l2 = 96MiB
clock_mhz = 2407
memory_clock_mhz = 14001
memory_bus_bits = 512
copy_engines = 2
single_to_double = 64
