# SPDX-License-Identifier: Apache-2.0
# NVIDIA GeForce RTX 3090: the card's public data sheet, and the programming guide's table for 8.6. The memory is about what CUDA tells of one.
card = RTX 3090 24GB
compute_capability = 8.6
memory = 24124MiB
multiprocessors = 82
threads_per_multiprocessor = 1536
blocks_per_multiprocessor = 16
shared_per_block_optin = 99KiB
shared_per_multiprocessor = 100KiB
clusters = no
l2 = 6MiB
clock_mhz = 1695
memory_clock_mhz = 9751
memory_bus_bits = 384
copy_engines = 2
single_to_double = 32
