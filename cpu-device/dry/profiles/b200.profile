# SPDX-License-Identifier: Apache-2.0
# NVIDIA B200: the card's public data sheet, and the programming guide's table for 10.0. The memory is about what CUDA tells of one.
card = B200 180GB
compute_capability = 10.0
memory = 182640MiB
multiprocessors = 148
threads_per_multiprocessor = 2048
blocks_per_multiprocessor = 32
shared_per_block_optin = 227KiB
shared_per_multiprocessor = 228KiB
clusters = yes
multicast = yes
l2 = 126MiB
clock_mhz = 1965
memory_clock_mhz = 3996
memory_bus_bits = 8192
copy_engines = 4
single_to_double = 2
