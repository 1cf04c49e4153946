// SPDX-License-Identifier: Apache-2.0
// Stands where a program looks for CUDA's headers and there are none: what it compiles through
// Farcall's libnvrtc gets those of the server instead of this folder.
#error "this folder holds no headers of CUDA's: they are on the Farcall server, for its NVRTC alone"
