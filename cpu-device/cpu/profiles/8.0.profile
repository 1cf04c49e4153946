# SPDX-License-Identifier: Apache-2.0
# The CPU device at compute capability 8.0, with the limits of the programming guide's table. For compilers that know no newer device, such as Triton's.
# Not set here, taken from this machine: memory (half of it, at most 8GiB), multiprocessors (its cores, 4 to 64).
compute_capability = 8.0
devices = 1
threads_per_multiprocessor = 2048
blocks_per_multiprocessor = 32
shared_per_block_optin = 163KiB
shared_per_multiprocessor = 164KiB
clusters = no
multicast = no
# Small: Inductor fills as much ahead of each launch of a kernel that it times, some hundred times a form.
l2 = 4MiB
clock_mhz = 2000
memory_clock_mhz = 3200
memory_bus_bits = 128
copy_engines = 2
single_to_double = 2
sass = refuse
