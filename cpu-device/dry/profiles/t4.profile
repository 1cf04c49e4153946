# SPDX-License-Identifier: Apache-2.0
# NVIDIA T4: the card's public data sheet, and the programming guide's table for 7.5. The memory is about what CUDA tells of one.
card = T4 16GB
compute_capability = 7.5
memory = 15102MiB
multiprocessors = 40
threads_per_multiprocessor = 1024
blocks_per_multiprocessor = 16
shared_per_block_optin = 64KiB
shared_per_multiprocessor = 64KiB
clusters = no
l2 = 4MiB
clock_mhz = 1590
memory_clock_mhz = 5001
memory_bus_bits = 256
copy_engines = 3
single_to_double = 32
