// SPDX-License-Identifier: Apache-2.0
// The few driver calls that the benchmark makes, on the libcuda.so.1 of a path. A failing call ends
// the program with its name and code.
#pragma once

#include <cuda.h>

#include <initializer_list>
#include <string>

namespace farcall::bench {

// Processor time of all threads of this process so far.
double ProcessorMs();

class Device {
 public:
  // Loads and initialises it; `initialised_ms` is how long that took.
  explicit Device(const std::string& library);
  double initialised_ms() const { return initialised_ms_; }
  void MakeContext();
  CUmodule Load(const char* image);
  CUfunction Find(CUmodule module, const char* kernel);
  CUdeviceptr Allocate(size_t bytes);
  // Page-locked, at the same address for both.
  CUdeviceptr AllocateHost(size_t bytes);
  CUdeviceptr Register(void* memory, size_t bytes);
  void Unregister(CUdeviceptr memory);
  void Up(CUdeviceptr to, const void* from, size_t bytes);
  void Down(void* to, CUdeviceptr from, size_t bytes);
  void Zero(CUdeviceptr at, size_t bytes);
  void Launch(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned block_x,
              unsigned block_y, std::initializer_list<const void*> arguments);
  void Wait();

 private:
  template <typename Function, typename... Arguments>
  void Call(const char* name, Arguments... arguments);
  void* library_ = nullptr;
  CUcontext context_ = nullptr;
  double initialised_ms_ = 0;
};

}  // namespace farcall::bench
