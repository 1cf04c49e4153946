// SPDX-License-Identifier: Apache-2.0
// client_checks CASE: what a remote client gets wrong most easily, one case a run. Prints "ok CASE"
// or what went wrong.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#define CHECK(call)                                                           \
  do {                                                                        \
    cudaError_t check = (call);                                               \
    if (check != cudaSuccess) Fail(#call, cudaGetErrorName(check), __LINE__); \
  } while (0)
#define EXPECT(condition)                                  \
  do {                                                     \
    if (!(condition)) Fail(#condition, "false", __LINE__); \
  } while (0)

[[noreturn]] static void Fail(const char* what, const char* got, int line) {
  std::printf("line %d: %s: %s\n", line, what, got);
  std::fflush(stdout);
  std::_Exit(1);
}

__global__ void Set(int* out, int value) {
  *out = value;
}
__global__ void Fill(int* out, int value, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    out[i] = value;
}
__global__ void Store(int* address) {
  *address = 1;
}

// Calls ordered by the program's own lock keep that order, whichever threads make them.
static void OrderedThreads() {
  int* device = nullptr;
  CHECK(cudaMalloc(&device, sizeof(int)));
  std::mutex mutex;
  std::atomic<int> turn{0};
  constexpr int kRounds = 1000;
  std::thread writer([&] {
    for (int round = 0; round < kRounds; ++round) {
      while (turn.load() != 2 * round) std::this_thread::yield();
      std::lock_guard<std::mutex> lock(mutex);
      Set<<<1, 1>>>(device, round);
      turn.store(2 * round + 1);
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    while (turn.load() != 2 * round + 1) std::this_thread::yield();
    std::lock_guard<std::mutex> lock(mutex);
    int value = -1;
    CHECK(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost));
    EXPECT(value == round);
    turn.store(2 * round + 2);
  }
  writer.join();
}

static void ManyThreads() {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 300; ++i) {
    threads.emplace_back([&, i] {
      int *device = nullptr, value = 0;
      CHECK(cudaMalloc(&device, sizeof(int)));
      Set<<<1, 1>>>(device, i);
      CHECK(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost));
      CHECK(cudaFree(device));
      if (value == i) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(good.load() == 300);
}

// Both directions at once, from two threads.
static void BothWays() {
  constexpr size_t kBytes = 256u << 20;
  std::vector<unsigned char> up(kBytes), down(kBytes);
  for (size_t i = 0; i < kBytes; i += 4096) up[i] = static_cast<unsigned char>(i >> 12);
  unsigned char *one = nullptr, *other = nullptr;
  CHECK(cudaMalloc(&one, kBytes));
  CHECK(cudaMalloc(&other, kBytes));
  CHECK(cudaMemset(other, 7, kBytes));
  std::thread upload([&] { CHECK(cudaMemcpy(one, up.data(), kBytes, cudaMemcpyHostToDevice)); });
  std::thread download(
      [&] { CHECK(cudaMemcpy(down.data(), other, kBytes, cudaMemcpyDeviceToHost)); });
  upload.join();
  download.join();
  EXPECT(down.front() == 7 && down.back() == 7 && down[kBytes / 2 + 1] == 7);
  CHECK(cudaMemcpy(down.data(), one, kBytes, cudaMemcpyDeviceToHost));
  EXPECT(std::memcmp(up.data(), down.data(), kBytes) == 0);
}

// Pageable memory is the program's again when the call returns, asynchronous or not.
static void OverwrittenSource() {
  for (size_t count : {size_t{16}, size_t{20000}, size_t{3000000}}) {
    std::vector<int> source(count, 42), result(count);
    int* device = nullptr;
    cudaStream_t stream;
    CHECK(cudaMalloc(&device, count * sizeof(int)));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemcpyAsync(device, source.data(), count * sizeof(int), cudaMemcpyHostToDevice,
                          stream));
    std::memset(source.data(), 0, count * sizeof(int));
    CHECK(cudaMemcpyAsync(result.data(), device, count * sizeof(int), cudaMemcpyDeviceToHost,
                          stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int value : result) EXPECT(value == 42);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
  }
}

// What a kernel still writes may not become another allocation under it.
static void ReuseAfterFree() {
  constexpr int kCount = 1 << 18;
  for (int round = 0; round < 20; ++round) {
    int *old_block = nullptr, *new_block = nullptr;
    CHECK(cudaMalloc(&old_block, kCount * sizeof(int)));
    Fill<<<4, 64>>>(old_block, -1, kCount);
    CHECK(cudaFree(old_block));
    CHECK(cudaMalloc(&new_block, kCount * sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Fill<<<4, 64, 0, stream>>>(new_block, round, kCount);
    CHECK(cudaDeviceSynchronize());
    std::vector<int> result(kCount);
    CHECK(cudaMemcpy(result.data(), new_block, kCount * sizeof(int), cudaMemcpyDeviceToHost));
    for (int value : result) EXPECT(value == round);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(new_block));
  }
}

static void LaunchLimits() {
  int* device = nullptr;
  CHECK(cudaMalloc(&device, sizeof(int)));
  Set<<<1, 2048>>>(device, 1);
  // The driver's code for all of them, which NVIDIA's runtime passes on; ours tells these apart.
  const cudaError_t shape = cudaGetLastError();
  EXPECT(shape == cudaErrorInvalidValue || shape == cudaErrorInvalidConfiguration);
  Set<<<dim3(1, 70000), 1>>>(device, 1);
  EXPECT(cudaGetLastError() == shape);
  Set<<<1, dim3(1, 1, 65)>>>(device, 1);
  EXPECT(cudaGetLastError() == shape);
  Set<<<1, 1, 1 << 20>>>(device, 1);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  Set<<<1, 1>>>(device, 5);
  CHECK(cudaDeviceSynchronize());
  EXPECT(cudaMalloc(&device, size_t{1} << 45) == cudaErrorMemoryAllocation);
  EXPECT(cudaFree(reinterpret_cast<void*>(0x1234)) == cudaErrorInvalidValue);
}

// A bad address breaks the context for good.
static void StickyError() {
  Store<<<1, 1>>>(reinterpret_cast<int*>(0x10));
  EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  void* memory = nullptr;
  EXPECT(cudaMalloc(&memory, 16) == cudaErrorIllegalAddress);
  EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}

// Pinned memory receives later, but before anything that says it has.
static void PinnedLandsLater() {
  constexpr int kCount = 1 << 20;
  int *device = nullptr, *host = nullptr;
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaMalloc(&device, kCount * sizeof(int)));
  CHECK(cudaMallocHost(&host, kCount * sizeof(int)));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&event));
  for (int round = 1; round < 8; ++round) {
    Fill<<<8, 64, 0, stream>>>(device, round, kCount);
    CHECK(cudaMemcpyAsync(host, device, kCount * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaEventRecord(event, stream));
    while (cudaEventQuery(event) == cudaErrorNotReady) {
    }
    for (int i = 0; i < kCount; ++i) EXPECT(host[i] == round);
  }
  CHECK(cudaFreeHost(host));
}

static void HostFunctions() {
  int* device = nullptr;
  std::vector<int> seen;
  int host_value = 0;
  cudaStream_t stream;
  CHECK(cudaMalloc(&device, sizeof(int)));
  CHECK(cudaStreamCreate(&stream));
  struct Job {
    std::vector<int>* seen;
    int* value;
  } job = {&seen, &host_value};
  for (int round = 0; round < 10; ++round) {
    Set<<<1, 1, 0, stream>>>(device, round);
    CHECK(cudaMemcpyAsync(&host_value, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaLaunchHostFunc(
        stream,
        [](void* raw) { static_cast<Job*>(raw)->seen->push_back(*static_cast<Job*>(raw)->value); },
        &job));
    CHECK(cudaStreamSynchronize(stream));
  }
  EXPECT(seen.size() == 10);
  for (int round = 0; round < 10; ++round) EXPECT(seen[round] == round);
}

static void Rectangles() {
  constexpr int kWidth = 300, kHeight = 200;
  std::vector<int> source(kWidth * kHeight), result(kWidth * kHeight, -1);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<int>(i);
  int* device = nullptr;
  size_t pitch = 0;
  CHECK(cudaMallocPitch(&device, &pitch, kWidth * sizeof(int), kHeight));
  EXPECT(pitch >= kWidth * sizeof(int));
  CHECK(cudaMemcpy2D(device, pitch, source.data(), kWidth * sizeof(int), kWidth * sizeof(int),
                     kHeight, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2D(result.data(), kWidth * sizeof(int), device, pitch, kWidth * sizeof(int),
                     kHeight, cudaMemcpyDeviceToHost));
  EXPECT(result == source);
  std::vector<int> part(10 * 20, -1);
  CHECK(cudaMemcpy2D(part.data(), 10 * sizeof(int),
                     reinterpret_cast<char*>(device) + 5 * pitch + 7 * sizeof(int), pitch,
                     10 * sizeof(int), 20, cudaMemcpyDeviceToHost));
  for (int y = 0; y < 20; ++y)
    for (int x = 0; x < 10; ++x) EXPECT(part[y * 10 + x] == (y + 5) * kWidth + x + 7);
}

static void PointerQuestions() {
  int *device = nullptr, *host = nullptr, on_stack = 0;
  CHECK(cudaMalloc(&device, 400));
  CHECK(cudaMallocHost(&host, 400));
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, device + 3));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0 &&
         attributes.devicePointer == device + 3);
  CHECK(cudaPointerGetAttributes(&attributes, host));
  EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == host);
  CHECK(cudaPointerGetAttributes(&attributes, &on_stack));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);
  size_t free_bytes = 0, total_bytes = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  EXPECT(free_bytes > 0 && free_bytes <= total_bytes);
}

// Granted but unspent memory counts as free, and so does what was freed.
static void MemoryInfo() {
  size_t before = 0, during = 0, after = 0, total = 0;
  void *first = nullptr, *block = nullptr;
  CHECK(cudaMalloc(&first, 4));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemGetInfo(&before, &total));
  CHECK(cudaMalloc(&block, 64 << 20));
  CHECK(cudaMemGetInfo(&during, &total));
  CHECK(cudaFree(block));
  CHECK(cudaMemGetInfo(&after, &total));
  EXPECT(before <= total && during < before && after >= before && after <= total);
}

static int ChildStatus(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A child forked after initialisation can do nothing, and its end leaves the parent's session
// alone.
static void ForkAfterInit() {
  int *device = nullptr, value = 0;
  CHECK(cudaMalloc(&device, sizeof(int)));
  pid_t child = fork();
  if (child == 0) {
    int* other = nullptr;
    std::exit(cudaMalloc(&other, 4) == cudaErrorInitializationError ? 11 : 12);
  }
  EXPECT(ChildStatus(child) == 11);
  Set<<<1, 1>>>(device, 9);
  CHECK(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost));
  EXPECT(value == 9);
}

// Children forked before anything opens a session of their own; so may the parent.
static void ForkBeforeInit() {
  pid_t children[3];
  for (pid_t& child : children) {
    child = fork();
    if (child != 0) continue;
    int *device = nullptr, value = 0;
    CHECK(cudaMalloc(&device, sizeof(int)));
    Set<<<1, 1>>>(device, 21);
    CHECK(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost));
    std::exit(value == 21 ? 11 : 12);
  }
  for (pid_t child : children) EXPECT(ChildStatus(child) == 11);
  int* device = nullptr;
  CHECK(cudaMalloc(&device, sizeof(int)));
}

// Leaves with work and threads under way: the process must end. The thread calls the driver, for
// the runtime takes itself apart at exit under whoever is inside it.
static void ExitBusy() {
  int* device = nullptr;
  CHECK(cudaMalloc(&device, 1 << 20));
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuMemsetD32Async", &entry, 12000, cudaEnableDefault,
                                         &found));
  EXPECT(found == cudaDriverEntryPointSuccess);
  auto* fill = reinterpret_cast<int (*)(unsigned long long, unsigned, size_t, void*)>(entry);
  std::atomic<bool>* running = new std::atomic<bool>(false);
  std::thread([=] {
    if (cudaSetDevice(0) != cudaSuccess) return;
    for (;;) {
      fill(reinterpret_cast<unsigned long long>(device), 1, 1 << 18, nullptr);
      running->store(true);
    }
  }).detach();
  while (!running->load()) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) Fill<<<1, 32>>>(device, 1, 1 << 18);
  std::printf("ok exit-busy\n");
  std::exit(0);
}

__global__ void FillSlowly(int* out, int value, int count) {
  if (threadIdx.x == 0) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 20000000u; ++i) sum = sum * 1664525u + i;
    if (sum == 42u) out[0] = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = value;
}

static bool AllAre(const std::vector<int>& values, int wanted) {
  for (int value : values)
    if (value != wanted) return false;
  return true;
}

// One stream, no wait in between: the upload reads what the download has brought.
static void UploadAfterDownload() {
  for (size_t count : {size_t(64), size_t(16 * 1024), size_t(3 << 20)}) {
    size_t bytes = count * sizeof(int);
    int *from = nullptr, *to = nullptr, *between = nullptr;
    cudaStream_t stream;
    CHECK(cudaMalloc(&from, bytes));
    CHECK(cudaMalloc(&to, bytes));
    CHECK(cudaMallocHost(&between, bytes));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemset(to, 0, bytes));
    for (int round = 1; round <= 3; ++round) {
      std::memset(between, 0, bytes);
      FillSlowly<<<1, 32, 0, stream>>>(from, round, (int)count);
      CHECK(cudaMemcpyAsync(between, from, bytes, cudaMemcpyDeviceToHost, stream));
      CHECK(cudaMemcpyAsync(to, between, bytes, cudaMemcpyHostToDevice, stream));
      CHECK(cudaStreamSynchronize(stream));
      std::vector<int> got(count);
      CHECK(cudaMemcpy(got.data(), to, bytes, cudaMemcpyDeviceToHost));
      EXPECT(AllAre(got, round));
    }
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(between));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
  }
}

struct Write {
  int* memory;
  size_t count;
  int value;
  std::atomic<bool>* gate;
};
static void WriteHost(void* raw) {
  auto* write = static_cast<Write*>(raw);
  while (write->gate != nullptr && !write->gate->load()) std::this_thread::yield();
  for (size_t i = 0; i < write->count; ++i) write->memory[i] = write->value;
}

static void UploadWritten(cudaStream_t stream, size_t count, bool gated) {
  size_t bytes = count * sizeof(int);
  int *device = nullptr, *host = nullptr;
  CHECK(cudaMalloc(&device, bytes));
  CHECK(cudaMallocHost(&host, bytes));
  std::memset(host, 0, bytes);
  std::atomic<bool> gate{false};
  Write write = {host, count, 7, gated ? &gate : nullptr};
  CHECK(cudaLaunchHostFunc(stream, WriteHost, &write));
  CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
  Fill<<<1, 32, 0, stream>>>(device, 8, 1);  // behind the copy
  gate = true;                               // reached: the copy did not wait for the function
  CHECK(cudaStreamSynchronize(stream));
  std::vector<int> got(count);
  CHECK(cudaMemcpy(got.data(), device, bytes, cudaMemcpyDeviceToHost));
  EXPECT(got[0] == 8);
  got[0] = 7;
  EXPECT(AllAre(got, 7));
  CHECK(cudaFreeHost(host));
  CHECK(cudaFree(device));
}

// The upload reads what the host function before it has written, also on the default streams.
static void UploadAfterHostFunction() {
  cudaStream_t streams[4] = {nullptr, cudaStreamPerThread};
  CHECK(cudaStreamCreate(&streams[2]));
  CHECK(cudaStreamCreateWithFlags(&streams[3], cudaStreamNonBlocking));
  for (cudaStream_t stream : streams)
    for (size_t count : {size_t(100), size_t(3 << 20)}) UploadWritten(stream, count, false);
}

// A host function that waits for the very thread that enqueues the upload behind it.
static void UploadBehindGate() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (size_t count : {size_t(100), size_t(3 << 20)}) UploadWritten(stream, count, true);
  UploadWritten(nullptr, 100, true);
}

int main(int argc, char** argv) {
  struct Case {
    const char* name;
    void (*run)();
  };
  static const Case kCases[] = {{"ordered-threads", OrderedThreads},
                                {"many-threads", ManyThreads},
                                {"both-ways", BothWays},
                                {"overwritten-source", OverwrittenSource},
                                {"reuse-after-free", ReuseAfterFree},
                                {"launch-limits", LaunchLimits},
                                {"sticky-error", StickyError},
                                {"pinned-lands-later", PinnedLandsLater},
                                {"host-functions", HostFunctions},
                                {"upload-after-download", UploadAfterDownload},
                                {"upload-after-host-function", UploadAfterHostFunction},
                                {"upload-behind-gate", UploadBehindGate},
                                {"rectangles", Rectangles},
                                {"pointer-questions", PointerQuestions},
                                {"memory-info", MemoryInfo},
                                {"fork-after-init", ForkAfterInit},
                                {"fork-before-init", ForkBeforeInit},
                                {"exit-busy", ExitBusy}};
  for (const Case& one : kCases) {
    if (argc == 2 && std::strcmp(argv[1], one.name) == 0) {
      one.run();
      std::printf("ok %s\n", one.name);
      return 0;
    }
  }
  std::fprintf(stderr, "usage: client_checks CASE\n");
  return 2;
}
