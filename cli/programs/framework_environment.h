// SPDX-License-Identifier: Apache-2.0
// What frameworks want beside CUDA's libraries: a device node to see, and PTX kept as PTX where the
// device takes nothing else.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace farcall::cli {

using Variables = std::vector<std::pair<std::string, std::string>>;

// For a device that takes PTX only (docs/reference/client.md): a ptxas that hands it through,
// CuPy's switch, no tensor cores, no timing of kernels by XLA. What the user has set stays. `thin`:
// what XLA looks for in its own folder of CUDA's comes from the server.
Variables PtxOnlyEnvironment(bool thin);

// For a dry device: XLA compares the results of the kernels that it times, and here there are none.
Variables DryEnvironment();
// NVIDIA's libraries that pip installed beside a Python program: TensorFlow finds them along
// LD_LIBRARY_PATH only. They stand last in it, behind `before`.
Variables WheelEnvironment(const std::string& program, std::string before);

// A library to preload, if the host has no NVIDIA device node: JAX looks for one before anything
// else. Empty for a program whose sanitizer has to be loaded first.
Variables DeviceNodeEnvironment(const std::string& program);

}  // namespace farcall::cli
