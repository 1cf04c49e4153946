# SPDX-License-Identifier: Apache-2.0
# NVIDIA H200 SXM: the card's public data sheet, and the programming guide's table for 9.0. The memory is about what CUDA tells of one.
card = H200 141GB
compute_capability = 9.0
memory = 143156MiB
multiprocessors = 132
threads_per_multiprocessor = 2048
blocks_per_multiprocessor = 32
shared_per_block_optin = 227KiB
shared_per_multiprocessor = 228KiB
clusters = yes
multicast = yes
l2 = 60MiB
clock_mhz = 1980
memory_clock_mhz = 3201
memory_bus_bits = 6144
copy_engines = 3
single_to_double = 2
