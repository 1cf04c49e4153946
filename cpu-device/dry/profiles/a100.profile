# SPDX-License-Identifier: Apache-2.0
# NVIDIA A100 SXM4: the card's public data sheet, and the programming guide's table for 8.0. The memory is about what CUDA tells of one.
card = A100 80GB
compute_capability = 8.0
memory = 81050MiB
multiprocessors = 108
threads_per_multiprocessor = 2048
blocks_per_multiprocessor = 32
shared_per_block_optin = 163KiB
shared_per_multiprocessor = 164KiB
clusters = no
l2 = 40MiB
clock_mhz = 1410
memory_clock_mhz = 1593
memory_bus_bits = 5120
copy_engines = 3
single_to_double = 2
