# SPDX-License-Identifier: Apache-2.0
"""Random CUDA kernels of code that blocks run together, each with the same computation for the host.

expressions -> statements -> warps -> blocks draw the text, each on top of the one before; twin holds a kernel's two texts while they
grow; source makes a .cu file of them."""

from .source import program

__all__ = ["program"]
