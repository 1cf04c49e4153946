// SPDX-License-Identifier: Apache-2.0
// One process lends memory or an event, another of the same vGPU uses it: lent WHAT, run twice over
// a socket it makes itself.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "check.h"
#include "driver.h"

namespace {

constexpr size_t kCount = 3 << 20, kBytes = kCount * 4;  // over more than one chunk

__global__ void Add(uint32_t* data, uint32_t value, size_t count) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < count) data[i] += value;
}

__global__ void Slow(uint32_t* data, int rounds) {
  uint32_t value = data[0];
  for (int i = 0; i < rounds; ++i) value = value * 1664525u + 1013904223u;
  data[1] = value;
  data[0] = 77;
}

void Send(int socket, const void* bytes, size_t count, int descriptor = -1) {
  iovec part{const_cast<void*>(bytes), count};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = room;
    message.msg_controllen = sizeof(room);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  EXPECT(sendmsg(socket, &message, 0) == ssize_t(count));
}

int Receive(int socket, void* bytes, size_t count) {
  iovec part{bytes, count};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof(room);
  if (recvmsg(socket, &message, MSG_WAITALL) != ssize_t(count))
    std::exit(2);  // the other one failed
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  int descriptor = -1;
  if (header != nullptr) std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

void Say(int socket) {
  Send(socket, "x", 1);
}
void Hear(int socket) {
  char said;
  Receive(socket, &said, 1);
}

void ExpectAll(const uint32_t* data, uint32_t value) {
  std::vector<uint32_t> host(kCount);
  CHECK(cudaMemcpy(host.data(), data, kBytes, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < kCount; ++i) EXPECT(host[i] == value);
}

void AddAll(uint32_t* data, uint32_t value) {
  Add<<<(kCount + 255) / 256, 256>>>(data, value, kCount);
  CHECK(cudaDeviceSynchronize());
}

void LendAllocation(int socket) {
  uint32_t *small = nullptr, *data = nullptr;
  CHECK(cudaMalloc(&small, 512));  // so that the other does not begin where a chunk does
  CHECK(cudaMalloc(&data, kBytes));
  CHECK(cudaMemset(data, 0, kBytes));
  AddAll(data, 5);
  cudaIpcMemHandle_t handle, again;
  CHECK(cudaIpcGetMemHandle(&handle, data));
  CHECK(cudaIpcGetMemHandle(&again, data));
  EXPECT(std::memcmp(&handle, &again, sizeof(handle)) == 0);
  void* own = nullptr;
  EXPECT(cudaIpcOpenMemHandle(&own, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess);
  cudaGetLastError();
  EXPECT(cudaIpcGetMemHandle(&again, data + 1) != cudaSuccess);
  cudaGetLastError();
  Send(socket, &handle, sizeof(handle));
  Hear(socket);
  ExpectAll(data, 12);
  AddAll(data, 1);
  Say(socket);
  Hear(socket);
  CHECK(cudaFree(data));
}

void UseAllocation(int socket) {
  cudaIpcMemHandle_t handle, forged;
  Receive(socket, &handle, sizeof(handle));
  CHECK(cudaSetDevice(0));
  forged = handle;
  forged.reserved[9] ^= 1;  // in the token
  void *pointer = nullptr, *again = nullptr;
  EXPECT(cudaIpcOpenMemHandle(&pointer, forged, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaIpcOpenMemHandle(&pointer, handle, cudaIpcMemLazyEnablePeerAccess));
  CHECK(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  EXPECT(pointer == again);
  auto* data = static_cast<uint32_t*>(pointer);
  ExpectAll(data, 5);
  AddAll(data, 7);
  Say(socket);
  Hear(socket);
  ExpectAll(data, 13);
  EXPECT(cudaFree(pointer) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaIpcCloseMemHandle(pointer));
  CHECK(cudaIpcCloseMemHandle(pointer));
  EXPECT(cudaIpcCloseMemHandle(pointer) != cudaSuccess);
  cudaGetLastError();
  EXPECT(cudaMemset(pointer, 0, 4) != cudaSuccess);
  cudaGetLastError();
  Say(socket);
}

uint32_t* MapWhole(CUmemGenericAllocationHandle handle, size_t bytes) {
  CUdeviceptr base = 0;
  CU_CHECK(CU(cuMemAddressReserve)(&base, bytes, 0, 0, 0));
  CU_CHECK(CU(cuMemMap)(base, bytes, 0, handle, 0));
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CU_CHECK(CU(cuMemSetAccess)(base, bytes, &access, 1));
  return reinterpret_cast<uint32_t*>(base);
}

void LendMapped(int socket) {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0, plain = 0;
  int descriptor = -1;
  CU_CHECK(CU(cuMemCreate)(&plain, kBytes, &properties, 0));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE,
           CU(cuMemExportToShareableHandle)(&descriptor, plain,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CU_CHECK(CU(cuMemRelease)(plain));
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CU_CHECK(CU(cuMemCreate)(&handle, kBytes, &properties, 0));
  uint32_t* data = MapWhole(handle, kBytes);
  CHECK(cudaMemset(data, 0, kBytes));
  AddAll(data, 5);
  CU_CHECK(CU(cuMemExportToShareableHandle)(&descriptor, handle,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  Send(socket, "x", 1, descriptor);
  close(descriptor);
  Hear(socket);
  ExpectAll(data, 12);
  // The other one keeps it: what it is charged with stays.
  size_t before = 0, after = 0, total = 0;
  CHECK(cudaMemGetInfo(&before, &total));
  CU_CHECK(CU(cuMemUnmap)(CUdeviceptr(data), kBytes));
  CU_CHECK(CU(cuMemRelease)(handle));
  CHECK(cudaMemGetInfo(&after, &total));
  EXPECT(after == before);
  Say(socket);
  Hear(socket);
  // What another process has freed is the vGPU's once its worker has done so. What it is granted
  // and does not use counts as free only when the grant is complete: `before` may be from before
  // that.
  for (int i = 0; i < 1000 && after < before + kBytes; ++i) {
    usleep(10'000);
    CHECK(cudaMemGetInfo(&after, &total));
  }
  EXPECT(after >= before + kBytes);
  Say(socket);
}

void UseMapped(int socket) {
  char byte;
  int descriptor = Receive(socket, &byte, 1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CUmemGenericAllocationHandle handle = 0;
  CU_FAILS(CUDA_ERROR_INVALID_VALUE,
           CU(cuMemImportFromShareableHandle)(&handle, reinterpret_cast<void*>(intptr_t(socket)),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CU_CHECK(CU(cuMemImportFromShareableHandle)(&handle,
                                              reinterpret_cast<void*>(intptr_t(descriptor)),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  uint32_t* data = MapWhole(handle, kBytes);
  ExpectAll(data, 5);
  AddAll(data, 7);
  Say(socket);
  Hear(socket);
  ExpectAll(data, 12);  // its maker has let it go
  CU_CHECK(CU(cuMemUnmap)(CUdeviceptr(data), kBytes));
  CU_CHECK(CU(cuMemRelease)(handle));
  CHECK(cudaDeviceSynchronize());
  Say(socket);
  Hear(socket);  // what this process has of its own is still there
}

void LendEvent(int socket) {
  uint32_t* data = nullptr;
  CHECK(cudaMalloc(&data, 8));
  CHECK(cudaMemset(data, 0, 8));
  cudaEvent_t event, plain;
  EXPECT(cudaEventCreateWithFlags(&event, cudaEventInterprocess) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
  cudaIpcEventHandle_t handle;
  EXPECT(cudaIpcGetEventHandle(&handle, plain) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaIpcGetEventHandle(&handle, event));
  cudaIpcMemHandle_t memory;
  CHECK(cudaIpcGetMemHandle(&memory, data));
  // Held by its second word, which another stream writes.
  cudaStream_t opener;
  CHECK(cudaStreamCreateWithFlags(&opener, cudaStreamNonBlocking));
  CU_CHECK(CU(cuStreamWaitValue32)(nullptr, CUdeviceptr(data + 1), 1, CU_STREAM_WAIT_VALUE_EQ));
  Slow<<<1, 1>>>(data, 1000);
  CHECK(cudaEventRecord(event));
  // On its way before the other is told.
  EXPECT(cudaEventQuery(event) == cudaErrorNotReady);
  Send(socket, &handle, sizeof(handle));
  Send(socket, &memory, sizeof(memory));
  CU_CHECK(
      CU(cuStreamWriteValue32)(opener, CUdeviceptr(data + 1), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  Hear(socket);
  CHECK(cudaDeviceSynchronize());
}

void UseEvent(int socket) {
  cudaIpcEventHandle_t handle;
  cudaIpcMemHandle_t memory;
  Receive(socket, &handle, sizeof(handle));
  Receive(socket, &memory, sizeof(memory));
  CHECK(cudaSetDevice(0));
  cudaEvent_t event;
  CHECK(cudaIpcOpenEventHandle(&event, handle));
  void* pointer = nullptr;
  CHECK(cudaIpcOpenMemHandle(&pointer, memory, cudaIpcMemLazyEnablePeerAccess));
  // A stream that waits for it, and a wait of the host's.
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamWaitEvent(stream, event, 0));
  uint32_t* seen = nullptr;
  CHECK(cudaMallocHost(&seen, 4));
  CHECK(cudaMemcpyAsync(seen, pointer, 4, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(*seen == 77);
  CHECK(cudaEventSynchronize(event));
  EXPECT(cudaEventQuery(event) == cudaSuccess);
  CHECK(cudaIpcCloseMemHandle(pointer));
  CHECK(cudaEventDestroy(event));
  Say(socket);
}

cudaMemPool_t MakePool(cudaMemAllocationHandleType type) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = type;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

constexpr cudaMemAllocationHandleType kDescriptor = cudaMemHandleTypePosixFileDescriptor;

void LendPool(int socket) {
  CHECK(cudaSetDevice(0));
  int types = 0;
  CHECK(cudaDeviceGetAttribute(&types, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
  EXPECT((types & kDescriptor) != 0);
  cudaMemPool_t plain = MakePool(cudaMemHandleTypeNone), pool = MakePool(kDescriptor);
  int descriptor = -1;
  EXPECT(cudaMemPoolExportToShareableHandle(&descriptor, plain, kDescriptor, 0) != cudaSuccess);
  cudaGetLastError();
  void *local = nullptr, *data = nullptr;
  cudaMemPoolPtrExportData pointer;
  CHECK(cudaMallocFromPoolAsync(&local, 512, pool, 0));
  EXPECT(cudaMemPoolExportPointer(&pointer, local) != cudaSuccess);  // the pool is not shared yet
  cudaGetLastError();
  CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, kDescriptor, 0));
  CHECK(cudaMallocFromPoolAsync(&data, kBytes, pool, 0));
  CHECK(cudaMemsetAsync(data, 0, kBytes, 0));
  AddAll(static_cast<uint32_t*>(data), 5);
  CHECK(cudaMemPoolExportPointer(&pointer, data));
  Send(socket, &pointer, sizeof(pointer), descriptor);
  close(descriptor);
  Hear(socket);
  ExpectAll(static_cast<uint32_t*>(data), 12);
  CHECK(cudaFreeAsync(data, 0));
  CHECK(cudaFreeAsync(local, 0));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemPoolDestroy(pool));
  CHECK(cudaMemPoolDestroy(plain));
}

void UsePool(int socket) {
  cudaMemPoolPtrExportData pointer;
  int descriptor = Receive(socket, &pointer, sizeof(pointer));
  CHECK(cudaSetDevice(0));
  cudaMemPool_t pool = nullptr, own = MakePool(kDescriptor);
  EXPECT(cudaMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t(socket)),
                                              kDescriptor, 0) != cudaSuccess);
  cudaGetLastError();
  CUmemGenericAllocationHandle memory = 0;  // a pool is not memory
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemImportFromShareableHandle)(
                                         &memory, reinterpret_cast<void*>(intptr_t(descriptor)),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CHECK(cudaMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t(descriptor)),
                                             kDescriptor, 0));
  close(descriptor);
  void *data = nullptr, *again = nullptr;
  EXPECT(cudaMallocFromPoolAsync(&data, 512, pool, 0) != cudaSuccess);
  EXPECT(cudaDeviceSetMemPool(0, pool) != cudaSuccess);
  EXPECT(cudaMemPoolImportPointer(&data, own, &pointer) != cudaSuccess);
  cudaMemPoolPtrExportData forged = pointer;
  forged.reserved[9] ^= 1;  // in the token
  EXPECT(cudaMemPoolImportPointer(&data, pool, &forged) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaMemPoolImportPointer(&data, pool, &pointer));
  ExpectAll(static_cast<uint32_t*>(data), 5);
  AddAll(static_cast<uint32_t*>(data), 7);
  EXPECT(cudaIpcCloseMemHandle(data) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaFreeAsync(data, 0));
  EXPECT(cudaFree(data) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaMemPoolImportPointer(&again, pool, &pointer));
  CHECK(cudaFree(again));
  CHECK(cudaMemPoolDestroy(pool));
  CHECK(cudaMemPoolDestroy(own));
  Say(socket);
}

using Side = void (*)(int);
struct Case {
  const char* name;
  Side lend, use;
};
constexpr Case kCases[] = {{"allocation", LendAllocation, UseAllocation},
                           {"mapped", LendMapped, UseMapped},
                           {"pool", LendPool, UsePool},
                           {"event", LendEvent, UseEvent}};

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc > 1);
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  for (const Case& one : kCases) {
    if (std::strcmp(argv[1], one.name) != 0) continue;
    pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      one.use(ends[1]);
      std::printf("used\n");
      return 0;
    }
    close(ends[1]);
    one.lend(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(status == 0);
    std::printf("done\n");
    return 0;
  }
  return 1;
}
