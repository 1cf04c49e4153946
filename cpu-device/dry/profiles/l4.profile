# SPDX-License-Identifier: Apache-2.0
# NVIDIA L4: the card's public data sheet, and the programming guide's table for 8.9. The memory is about what CUDA tells of one.
card = L4 24GB
compute_capability = 8.9
memory = 22574MiB
multiprocessors = 58
threads_per_multiprocessor = 1536
blocks_per_multiprocessor = 24
shared_per_block_optin = 99KiB
shared_per_multiprocessor = 100KiB
clusters = no
l2 = 48MiB
clock_mhz = 2040
memory_clock_mhz = 6251
memory_bus_bits = 192
copy_engines = 2
single_to_double = 64
