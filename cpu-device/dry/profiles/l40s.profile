# SPDX-License-Identifier: Apache-2.0
# NVIDIA L40S: the card's public data sheet, and the programming guide's table for 8.9. The memory is about what CUDA tells of one.
card = L40S 48GB
compute_capability = 8.9
memory = 45456MiB
multiprocessors = 142
threads_per_multiprocessor = 1536
blocks_per_multiprocessor = 24
shared_per_block_optin = 99KiB
shared_per_multiprocessor = 100KiB
clusters = no
l2 = 96MiB
clock_mhz = 2520
memory_clock_mhz = 9001
memory_bus_bits = 384
copy_engines = 2
single_to_double = 64
