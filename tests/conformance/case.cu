// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include "case.h"

namespace conformance {

namespace {

constexpr auto kMoment = std::chrono::milliseconds(30);
constexpr auto kPatience = std::chrono::seconds(20);

__global__ void Increment(unsigned char* memory, size_t bytes) {
  for (size_t i = threadIdx.x; i < bytes; i += blockDim.x) memory[i] += 1;
}

}  // namespace

Gate::Gate(cudaStream_t stream) {
  NEEDS(cudaLaunchHostFunc(stream, &Gate::Wait, this));
  openers_.emplace_back([this] {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [this] { return open_; });
    open_ = true;
    changed_.notify_all();
  });
}

Gate::~Gate() {
  Open();
  for (std::thread& opener : openers_) opener.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return passed_; });  // the function has `this`
}

void Gate::Open() {
  std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void Gate::OpenSoon() {
  openers_.emplace_back([this] {
    std::this_thread::sleep_for(kMoment);
    Open();
  });
}

bool Gate::is_open() const {
  std::lock_guard lock(mutex_);
  return open_;
}

ValueGate::ValueGate(cudaStream_t stream) {
  NEEDS(cudaMalloc(reinterpret_cast<void**>(&word_), sizeof(uint32_t)));
  NEEDS(cudaMemset(reinterpret_cast<void*>(word_), 0, sizeof(uint32_t)));
  NEEDS(cudaStreamCreateWithFlags(&writer_, cudaStreamNonBlocking));
  NEEDS(cudaDeviceSynchronize());
  NEEDS(AsRuntime(CU(cuStreamWaitValue32_v2)(stream, word_, 1, CU_STREAM_WAIT_VALUE_EQ)));
}

ValueGate::~ValueGate() {
  if (opener_.joinable()) opener_.join();
  Open();
  cudaDeviceSynchronize();
  cudaStreamDestroy(writer_);
  cudaFree(reinterpret_cast<void*>(word_));
}

void ValueGate::Open() {
  CU(cuStreamWriteValue32_v2)(writer_, word_, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
}

void ValueGate::OpenSoon() {
  opener_ = std::thread([this] {
    cudaSetDevice(0);
    std::this_thread::sleep_for(kMoment);
    Open();
  });
}

void Gate::Wait(void* self) {
  auto* gate = static_cast<Gate*>(self);
  std::unique_lock lock(gate->mutex_);
  gate->changed_.wait(lock, [gate] { return gate->open_; });
  gate->passed_ = true;
  gate->changed_.notify_all();
}

Buffers::Buffers() {
  NEEDS(cudaMalloc(&device, kBytes));
  NEEDS(cudaMalloc(&other, kBytes));
  NEEDS(cudaMallocHost(&pinned, kBytes));
  NEEDS(cudaMallocHost(&pinned2, kBytes));
  NEEDS(cudaHostAlloc(&mapped, kBytes, cudaHostAllocMapped));
  NEEDS(cudaMallocManaged(&managed, kBytes));
  pages_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  registered = static_cast<unsigned char*>(pages_);
  NEEDS(cudaHostRegister(registered, kBytes, cudaHostRegisterDefault));
  cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
  NEEDS(cudaMallocArray(&array, &format, kWidth, kHeight));
  NEEDS(cudaMemset(device, 1, kBytes));
  NEEDS(cudaMemset(other, 1, kBytes));
  for (unsigned char* memory : {pinned, pinned2, mapped, managed, registered})
    std::memset(memory, 1, kBytes);
  NEEDS(cudaMemcpy2DToArray(array, 0, 0, pageable.data(), kPitch, kWidth, kHeight,
                            cudaMemcpyHostToDevice));
  NEEDS(cudaDeviceSynchronize());
}

Buffers::~Buffers() {
  cudaDeviceSynchronize();
  cudaFreeArray(array);
  cudaHostUnregister(registered);
  munmap(pages_, kBytes);
  cudaFree(managed);
  for (unsigned char* memory : {pinned, pinned2, mapped}) cudaFreeHost(memory);
  cudaFree(device);
  cudaFree(other);
  cudaGetLastError();
}

bool IsThin() {
  Dl_info found{};
  return dladdr(dlsym(RTLD_DEFAULT, "cudaMemGetInfo"), &found) != 0 &&
         std::strstr(found.dli_fname, "/thin/") != nullptr;
}

CUdeviceptr Ptr(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

bool Filled(const void* memory, int value, size_t bytes) {
  // Not through what the compiler knows of it: another party writes there.
  const auto* at = static_cast<const volatile unsigned char*>(memory);
  for (size_t i = 0; i < bytes; ++i)
    if (at[i] != static_cast<unsigned char>(value)) return false;
  return true;
}

bool DeviceFilled(const void* memory, int value, size_t bytes) {
  std::vector<unsigned char> host(bytes);
  NEEDS(cudaMemcpy(host.data(), memory, bytes, cudaMemcpyDeviceToHost));
  return Filled(host.data(), value, bytes);
}

bool RowsFilled(const void* memory, int value) {
  const auto* at = static_cast<const unsigned char*>(memory);
  for (size_t row = 0; row < kHeight; ++row)
    if (!Filled(at + row * kPitch, value, kWidth)) return false;
  return true;
}

CUDA_MEMCPY2D DriverCopy2D(const void* dst, CUmemorytype dst_type, const void* src,
                           CUmemorytype src_type) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = src_type;
  copy.srcHost = src;
  copy.srcDevice = Ptr(src);
  copy.srcPitch = kPitch;
  copy.dstMemoryType = dst_type;
  copy.dstHost = const_cast<void*>(dst);
  copy.dstDevice = Ptr(dst);
  copy.dstPitch = kPitch;
  copy.WidthInBytes = kWidth;
  copy.Height = kHeight;
  return copy;
}

void CheckReturn(Returns returns, cudaStream_t stream,
                 const std::function<cudaError_t(Buffers& at)>& call,
                 const std::function<bool(Buffers& at)>& at_return,
                 const std::function<bool(Buffers& at)>& at_end) {
  Buffers at;
  {
    Gate gate(stream);
    if (returns != Returns::kEarly) gate.OpenSoon();
    cudaError_t code = call(at);
    bool was_open = gate.is_open();
    if (code != cudaSuccess) throw Failure{std::string("it fails: ") + cudaGetErrorName(code)};
    if (returns == Returns::kEarly && was_open) throw Failure{"it waits for earlier work"};
    if (returns == Returns::kLate && !was_open)
      throw Failure{"it returns before earlier work is complete"};
    if (at_return && !at_return(at)) throw Failure{"when it returns, the memory is not as stated"};
  }
  NEEDS(cudaDeviceSynchronize());
  if (at_end && !at_end(at)) throw Failure{"at the end, the memory is not as stated"};
}

const char kRightBody[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry k() {\n.reg .u32 %a;\nmov.u32 %a, 1;\nret;\n}\n";
const char kWrongBody[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry k() {\n.reg .u32 %a;\nmov.u32 %never_declared, 1;\nret;\n}\n";
const char kWrongInstruction[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry k() { there.is.none; ret; }\n";

Jit::Jit()
    : info{},
      error{},
      options{CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME},
      values{info, reinterpret_cast<void*>(sizeof(info)), error,
             reinterpret_cast<void*>(sizeof(error)), nullptr} {}

float Jit::milliseconds() const {
  float ms = 0;
  std::memcpy(&ms, &values[4], sizeof(ms));
  return ms;
}

GraphOf::GraphOf() {
  NEEDS(cudaFree(nullptr));
  NEEDS(AsRuntime(CU(cuModuleLoadData)(&module_,
                                       ".version 7.0\n.target sm_70\n.address_size 64\n.visible "
                                       ".entry k(.param .u32 a) { ret; }\n")));
  NEEDS(AsRuntime(CU(cuModuleGetFunction)(&kernel_, module_, "k")));
  NEEDS(AsRuntime(CU(cuGraphCreate)(&graph, 0)));
}

GraphOf::~GraphOf() {
  CU(cuGraphDestroy)(graph);
  CU(cuModuleUnload)(module_);
}

CUgraphNode GraphOf::AddKernel(void** values, void** extra) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = kernel_;
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = values;
  params.extra = extra;
  CUgraphNode node = nullptr;
  NEEDS(AsRuntime(CU(cuGraphAddKernelNode)(&node, graph, nullptr, 0, &params)));
  return node;
}

Diamond::Diamond() {
  NEEDS(AsRuntime(CU(cuGraphAddEmptyNode)(&first, graph, nullptr, 0)));
  NEEDS(AsRuntime(CU(cuGraphAddEmptyNode)(&left, graph, &first, 1)));
  NEEDS(AsRuntime(CU(cuGraphAddEmptyNode)(&right, graph, &first, 1)));
  const CUgraphNode both[] = {left, right};
  NEEDS(AsRuntime(CU(cuGraphAddEmptyNode)(&last, graph, both, 2)));
}

void LaunchIncrement(unsigned char* memory, size_t bytes, cudaStream_t stream) {
  Increment<<<1, 128, 0, stream>>>(memory, bytes);
  NEEDS(cudaGetLastError());
}

}  // namespace conformance

// Runs the rows of one table, or one row by its number, or lists them all.
int main(int argc, char** argv) {
  using namespace conformance;
  const std::string table = argc > 1 ? argv[1] : "";
  const long only = argc > 2 ? std::atol(argv[2]) : -1;
  int failed = 0, passed = 0;
  for (size_t i = 0; i < kCaseCount; ++i) {
    const Case& row = kCases[i];
    if (table == "--list") {
      std::printf("%zu %s: %s\n", i, row.table, row.name);
      continue;
    }
    if (table != row.table || (only >= 0 && only != static_cast<long>(i))) continue;
    try {
      row.run();
      ++passed;
    } catch (const Failure& failure) {
      ++failed;
      std::printf("FAILED %zu %s: %s\n  rule: %s\n  source: %s\n", i, row.name,
                  failure.what.c_str(), row.rule, row.source);
    }
    std::fflush(stdout);
  }
  if (table != "--list") std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
