# SPDX-License-Identifier: Apache-2.0
# The CPU device at compute capability 7.5, with the limits of the programming guide's table.
# Not set here, taken from this machine: memory (half of it, at most 8GiB), multiprocessors (its cores, 4 to 64).
compute_capability = 7.5
devices = 1
threads_per_multiprocessor = 1024
blocks_per_multiprocessor = 16
shared_per_block_optin = 64KiB
shared_per_multiprocessor = 64KiB
clusters = no
multicast = no
l2 = 32MiB
clock_mhz = 2000
memory_clock_mhz = 3200
memory_bus_bits = 128
copy_engines = 2
single_to_double = 2
sass = refuse
