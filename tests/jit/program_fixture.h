// SPDX-License-Identifier: Apache-2.0
// Programs run directly on the executor, their memory in one window of this process.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {

// Stands for the driver's device memory: a reserved range, handed out front to back.
class TestMemory final : public GlobalMemory {
 public:
  static constexpr uint64_t kWindowBytes = uint64_t{1} << 30;
  static TestMemory& Get() {
    static TestMemory* memory = new TestMemory;
    return *memory;
  }
  uint64_t Allocate(uint64_t bytes, uint64_t align) override {
    std::lock_guard lock(mutex_);
    uint64_t address = (next_ + align - 1) / align * align;
    if (address + bytes > begin_ + kWindowBytes) return 0;
    next_ = address + bytes;
    return address;
  }
  void Free(uint64_t) override {}
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return begin_ + kWindowBytes; }

 private:
  TestMemory() {
    void* at = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    begin_ = next_ = reinterpret_cast<uint64_t>(at);
  }
  std::mutex mutex_;
  uint64_t begin_, next_;
};

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count)
      : count_(count), address_(TestMemory::Get().Allocate(count * sizeof(T), 256)) {
    memset(data(), 0, count * sizeof(T));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    memcpy(data(), values.data(), values.size() * sizeof(T));
  }
  T* data() { return reinterpret_cast<T*>(address_); }
  T& operator[](size_t i) { return data()[i]; }
  uint64_t address() const { return address_; }
  size_t size() const { return count_; }

 private:
  size_t count_;
  uint64_t address_;
};

// The argument block of a launch, filled by the kernel's own layout.
class Arguments {
 public:
  explicit Arguments(const KernelInfo& info) : info_(info), bytes_(info.param_bytes + 1) {}
  template <typename T>
  Arguments& Add(const T& value) {
    const KernelParam& param = info_.params.at(next_++);
    EXPECT_EQ(param.size_bytes, sizeof(T));
    memcpy(bytes_.data() + param.offset_bytes, &value,
           std::min<size_t>(sizeof(T), param.size_bytes));
    return *this;
  }
  const void* data() const { return bytes_.data(); }

 private:
  const KernelInfo& info_;
  std::vector<uint8_t> bytes_;
  size_t next_ = 0;
};

inline ExecutorOptions TestOptions() {
  ExecutorOptions options;
  options.pool_threads = 2;
  options.device_window_begin = TestMemory::Get().begin();
  options.device_window_end = TestMemory::Get().end();
  options.is_device_address = [](uint64_t) { return false; };
  options.verify_ir = true;
  return options;
}

class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("FARCALL_PTXJIT", FARCALL_PTXJIT_PATH, 0);
    setenv("FARCALL_CPU_CODE", "full", 0);  // what is optimised, wherever nothing else is said
    ConfigureExecutor(TestOptions());
  }

  // Loads, and fails the test if the text is refused.
  Program* Load(const std::string& ptx) {
    std::unique_ptr<Program> program;
    ExecResult result = Program::Load(ptx, TestMemory::Get(), &program);
    EXPECT_TRUE(result.ok()) << result.message;
    if (!result.ok()) return nullptr;
    programs_.push_back(std::move(program));
    return programs_.back().get();
  }
  Program* LoadFile(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_FALSE(text.str().empty()) << path;
    return Load(text.str());
  }
  static Kernel* Find(Program* program, const std::string& name) {
    if (!program) return nullptr;
    if (Kernel* exact = program->FindKernel(name)) return exact;
    for (const std::string& mangled : program->KernelNames())
      if (mangled.find(name) != std::string::npos) return program->FindKernel(mangled);
    ADD_FAILURE() << "no kernel " << name;
    return nullptr;
  }
  template <typename... T>
  static ExecResult Run(Kernel* kernel, Dim3 grid, Dim3 block, const T&... arguments) {
    return RunShared(kernel, grid, block, 0, arguments...);
  }
  template <typename... T>
  static ExecResult RunShared(Kernel* kernel, Dim3 grid, Dim3 block, uint32_t shared_bytes,
                              const T&... arguments) {
    LaunchConfig config;
    config.grid = grid;
    config.block = block;
    config.dynamic_shared_bytes = shared_bytes;
    Arguments packed(kernel->info());
    (packed.Add(arguments), ...);
    return kernel->Run(config, packed.data());
  }

  std::vector<std::unique_ptr<Program>> programs_;
};

#define EXPECT_RUNS(expression)                         \
  do {                                                  \
    ExecResult run_result = (expression);               \
    EXPECT_TRUE(run_result.ok()) << run_result.message; \
  } while (0)

}  // namespace farcall::cpu_device
