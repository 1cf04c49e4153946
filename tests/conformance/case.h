// SPDX-License-Identifier: Apache-2.0
// What the rows of the tables are written in: buffers of every kind, a stream that is held until a
// test lets it go, and checks that name the row.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/session/programs/driver.h"

namespace conformance {

inline constexpr size_t kBytes = 4096, kWidth = 48, kHeight = 8, kPitch = 64;

struct Failure {
  std::string what;
};

#define NEEDS(call)                                                                    \
  do {                                                                                 \
    cudaError_t needs = (call);                                                        \
    if (needs != cudaSuccess)                                                          \
      throw conformance::Failure{std::string(#call) + ": " + cudaGetErrorName(needs)}; \
  } while (0)
#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) throw conformance::Failure{"not true: " #condition}; \
  } while (0)
#define EXPECT_CODE(code, call) conformance::ExpectCode(code, call, #call)

inline void ExpectCode(cudaError_t wanted, cudaError_t got, const char* call) {
  if (wanted != got)
    throw Failure{std::string(call) + ": " + cudaGetErrorName(got) + ", not " +
                  cudaGetErrorName(wanted)};
}
inline void ExpectCode(CUresult wanted, CUresult got, const char* call) {
  if (wanted != got)
    throw Failure{std::string(call) + ": " + std::to_string(got) + ", not " +
                  std::to_string(wanted)};
}

// Work on a stream that ends when it is told to: a host function that waits.
class Gate {
 public:
  // The gate of `stream` opens after a while if the row does not open it; a call that waits for it
  // then returns, and the row fails.
  explicit Gate(cudaStream_t stream);
  ~Gate();
  void Open();
  // Opens it in a moment, from another thread.
  void OpenSoon();
  bool is_open() const;

 private:
  static void Wait(void* self);
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, passed_ = false;
  std::vector<std::thread> openers_;
  bool stopping_ = false;
};

// The same without a host function: the stream waits for a value in device memory.
class ValueGate {
 public:
  explicit ValueGate(cudaStream_t stream);
  ~ValueGate();
  void Open();
  void OpenSoon();

 private:
  CUdeviceptr word_ = 0;
  cudaStream_t writer_ = nullptr;
  std::thread opener_;
};

// Memory of each kind, kBytes long, filled with 1; `array` is kWidth x kHeight bytes.
struct Buffers {
  Buffers();
  ~Buffers();
  unsigned char *device = nullptr, *other = nullptr, *pinned = nullptr, *pinned2 = nullptr;
  unsigned char *mapped = nullptr, *managed = nullptr, *registered = nullptr;
  std::vector<unsigned char> pageable = std::vector<unsigned char>(kBytes, 1);
  std::vector<unsigned char> pageable2 = std::vector<unsigned char>(kBytes, 1);
  cudaArray_t array = nullptr;

 private:
  void* pages_ = nullptr;
};

// Whether the runtime is Farcall's (thin mode).
bool IsThin();
CUdeviceptr Ptr(const void* pointer);
// All of the first `bytes` are `value`.
bool Filled(const void* memory, int value, size_t bytes = kBytes);
// The same of device memory; waits for it.
bool DeviceFilled(const void* memory, int value, size_t bytes = kBytes);
// Rows of kWidth bytes, kPitch apart.
bool RowsFilled(const void* memory, int value);

CUDA_MEMCPY2D DriverCopy2D(const void* dst, CUmemorytype dst_type, const void* src,
                           CUmemorytype src_type);

enum class Returns {
  kEarly,   // before earlier work of its stream is complete
  kLate,    // after that
  kEither,  // the documentation leaves it open
};
// A row of "API synchronization behavior": `call` is made while earlier work of `stream` runs.
void CheckReturn(Returns returns, cudaStream_t stream,
                 const std::function<cudaError_t(Buffers& at)>& call,
                 const std::function<bool(Buffers& at)>& at_return,
                 const std::function<bool(Buffers& at)>& at_end);

// Adds 1 to each byte; one block.
void LaunchIncrement(unsigned char* memory, size_t bytes, cudaStream_t stream);

// PTX whose declarations are right: a module whose kernel is too, one that names an undeclared
// register on line 6, and one with an unknown instruction on line 4.
extern const char kRightBody[], kWrongBody[], kWrongInstruction[];
// Options of a load: both logs and the time.
struct Jit {
  static constexpr unsigned kCount = 5;
  Jit();
  size_t error_bytes() const { return reinterpret_cast<size_t>(values[3]); }
  float milliseconds() const;
  char info[256], error[256];
  CUjit_option options[kCount];
  void* values[kCount];
};

// A graph, with kernels that take one int.
struct GraphOf {
  GraphOf();
  ~GraphOf();
  CUgraphNode AddKernel(void** values, void** extra);
  CUgraph graph = nullptr;

 private:
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
};

// Four empty nodes and four edges: two between the first and the last.
struct Diamond : GraphOf {
  Diamond();
  CUgraphNode first = nullptr, left = nullptr, right = nullptr, last = nullptr;
};

// Driver calls answer in their own code.
inline cudaError_t AsRuntime(CUresult result) {
  return static_cast<cudaError_t>(result);
}
inline cudaError_t AsRuntime(cudaError_t result) {
  return result;
}

struct Case {
  const char *table, *rule, *source, *name;
  void (*run)();
};
extern const Case kCases[];
extern const size_t kCaseCount;

}  // namespace conformance
