// SPDX-License-Identifier: Apache-2.0
// A library that stands before NVIDIA's of the same name: what it does not do itself the real one
// does (forwards.py).
#pragma once

#include <string>

namespace farcall::cpu_device {

// The real library's function; null: there is no such library, which the log says once, or it is
// older.
//   Thread  any
void* RealFunction(const char* name);

// As it is declared: FARCALL_REAL(nvrtcCompileProgram).
template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(RealFunction(name));
}
#define FARCALL_REAL(name) (::farcall::cpu_device::Real<decltype(::name)>(#name))

// Why there is none; empty: there is.
const std::string& WhyNoRealLibrary();

}  // namespace farcall::cpu_device
