# SPDX-License-Identifier: Apache-2.0
# The CPU device at compute capability 12.1, with the limits of the programming guide's table. The newest that NVIDIA's libraries and Numba know by name; their PTX for 12.0 and 12.1 is taken.
# Not set here, taken from this machine: memory (half of it, at most 8GiB), multiprocessors (its cores, 4 to 64).
compute_capability = 12.1
devices = 1
threads_per_multiprocessor = 1536
blocks_per_multiprocessor = 24
shared_per_block_optin = 99KiB
shared_per_multiprocessor = 100KiB
clusters = yes
multicast = yes
# Small: Inductor fills as much ahead of each launch of a kernel that it times, some hundred times a form.
l2 = 4MiB
clock_mhz = 2000
memory_clock_mhz = 3200
memory_bus_bits = 128
copy_engines = 2
single_to_double = 2
sass = refuse
