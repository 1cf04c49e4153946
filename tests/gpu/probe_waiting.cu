// SPDX-License-Identifier: Apache-2.0
// The probe's sections about waiting: which calls block until running work ends.

#include <sys/mman.h>

#include <cstdlib>
#include <functional>

#include "probe_support.h"

namespace probe {
namespace {

constexpr unsigned long long kSpinNs = 150'000'000;
constexpr size_t kSize = size_t{4} << 20;

// Set up before, called while an unrelated kernel runs on a non-blocking stream, undone afterwards.
struct Candidate {
  const char* name;
  std::function<void()> prepare;
  std::function<CUresult()> call;
  std::function<void()> undo;
};

void Test(const Candidate& candidate, CUstream stream, CUevent end) {
  candidate.prepare();
  MUST(cuCtxSynchronize);
  LaunchSpin(stream, kSpinNs);
  MUST(cuEventRecord, end, stream);
  CUresult status = CUDA_SUCCESS;
  const double us = TimeUs([&] { status = candidate.call(); });
  const bool running = TRY(cuEventQuery, end) == CUDA_ERROR_NOT_READY;
  MUST(cuStreamSynchronize, stream);
  if (status != CUDA_SUCCESS) {
    ReportText(candidate.name, ErrorName(status));
  } else {
    char took[64];
    std::snprintf(took, sizeof(took), "took %.1f us of a kernel of %llu us", us, kSpinNs / 1000);
    ReportText(candidate.name, running ? "does not wait" : "waits", took);
    candidate.undo();
  }
}

// What the candidates work on; all of it is reachable while `call` runs.
struct State {
  CUdeviceptr address = 0, plain = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties = {};
  CUmemAccessDesc access = {};
  CUstream stream = nullptr;
  CUevent event = nullptr;
  void* host = nullptr;
  std::vector<char> pageable = std::vector<char>(kSize);

  State() {
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }

  void Reserve() { MUST(cuMemAddressReserve, &address, kSize, size_t{0}, CUdeviceptr{0}, 0ull); }
  void Create() { MUST(cuMemCreate, &handle, kSize, &properties, 0ull); }
  void Map() { MUST(cuMemMap, address, kSize, size_t{0}, handle, 0ull); }
  void Allow() { MUST(cuMemSetAccess, address, kSize, &access, size_t{1}); }
  void Unmap() { MUST(cuMemUnmap, address, kSize); }
  void Release() { MUST(cuMemRelease, handle); }
  void Free() { MUST(cuMemAddressFree, address, kSize); }
};

std::vector<Candidate> MemoryCandidates(State& s) {
  return {
      {"cuMemAddressReserve", [] {},
       [&] { return TRY(cuMemAddressReserve, &s.address, kSize, size_t{0}, CUdeviceptr{0}, 0ull); },
       [&] { s.Free(); }},
      {"cuMemCreate", [] {},
       [&] { return TRY(cuMemCreate, &s.handle, kSize, &s.properties, 0ull); },
       [&] { s.Release(); }},
      {"cuMemMap", [&] { s.Reserve(), s.Create(); },
       [&] { return TRY(cuMemMap, s.address, kSize, size_t{0}, s.handle, 0ull); },
       [&] { s.Unmap(), s.Release(), s.Free(); }},
      {"cuMemSetAccess", [&] { s.Reserve(), s.Create(), s.Map(); },
       [&] { return TRY(cuMemSetAccess, s.address, kSize, &s.access, size_t{1}); },
       [&] { s.Unmap(), s.Release(), s.Free(); }},
      {"cuMemUnmap (memory not in use)", [&] { s.Reserve(), s.Create(), s.Map(), s.Allow(); },
       [&] { return TRY(cuMemUnmap, s.address, kSize); }, [&] { s.Release(), s.Free(); }},
      {"cuMemRelease (still mapped)", [&] { s.Reserve(), s.Create(), s.Map(), s.Allow(); },
       [&] { return TRY(cuMemRelease, s.handle); }, [&] { s.Unmap(), s.Free(); }},
      {"cuMemRelease (unmapped)", [&] { s.Create(); }, [&] { return TRY(cuMemRelease, s.handle); },
       [] {}},
      {"cuMemAddressFree", [&] { s.Reserve(); },
       [&] { return TRY(cuMemAddressFree, s.address, kSize); }, [] {}},
      {"cuMemAlloc", [] {}, [&] { return TRY(cuMemAlloc, &s.address, kSize); },
       [&] { MUST(cuMemFree, s.address); }},
      {"cuMemFree", [&] { MUST(cuMemAlloc, &s.address, kSize); },
       [&] { return TRY(cuMemFree, s.address); }, [] {}},
      {"cuMemAllocAsync (another stream)", [] {},
       [&] { return TRY(cuMemAllocAsync, &s.address, kSize, s.stream); },
       [&] { MUST(cuMemFreeAsync, s.address, s.stream); }},
      {"cuMemFreeAsync (another stream)",
       [&] { MUST(cuMemAllocAsync, &s.address, kSize, s.stream); },
       [&] { return TRY(cuMemFreeAsync, s.address, s.stream); }, [] {}},
      {"cuMemHostAlloc", [] {}, [&] { return TRY(cuMemHostAlloc, &s.host, kSize, 0u); },
       [&] { MUST(cuMemFreeHost, s.host); }},
      {"cuMemFreeHost", [&] { MUST(cuMemHostAlloc, &s.host, kSize, 0u); },
       [&] { return TRY(cuMemFreeHost, s.host); }, [] {}},
      {"cuMemHostRegister", [] {},
       [&] { return TRY(cuMemHostRegister, s.pageable.data(), kSize, 0u); },
       [&] { MUST(cuMemHostUnregister, s.pageable.data()); }},
      {"cuMemHostUnregister", [&] { MUST(cuMemHostRegister, s.pageable.data(), kSize, 0u); },
       [&] { return TRY(cuMemHostUnregister, s.pageable.data()); }, [] {}},
  };
}

const char kModule[] = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry nothing() { ret; }
)";

std::vector<Candidate> OtherCandidates(State& s, CUmodule& module, CUfunction& function) {
  const auto load = [&] { return TRY(cuModuleLoadData, &module, kModule); };
  return {
      {"cuModuleLoadData (PTX, JIT)", [] {}, load, [&] { MUST(cuModuleUnload, module); }},
      {"first launch of a module's function",
       [&, load] {
         Expect(load(), "cuModuleLoadData");
         MUST(cuModuleGetFunction, &function, module, "nothing");
       },
       [&] {
         return TRY(cuLaunchKernel, function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, s.stream,
                    static_cast<void**>(nullptr), static_cast<void**>(nullptr));
       },
       [&] { MUST(cuModuleUnload, module); }},
      {"cuModuleUnload", [load] { Expect(load(), "cuModuleLoadData"); },
       [&] { return TRY(cuModuleUnload, module); }, [] {}},
      {"cuStreamCreate", [] {},
       [&] {
         return TRY(cuStreamCreate, &s.stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
       },
       [] {}},
      {"cuStreamDestroy (idle)",
       [&] { MUST(cuStreamCreate, &s.stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING)); },
       [&] { return TRY(cuStreamDestroy, s.stream); }, [] {}},
      {"cuEventCreate", [] {}, [&] { return TRY(cuEventCreate, &s.event, 0u); }, [] {}},
      {"cuEventDestroy", [&] { MUST(cuEventCreate, &s.event, 0u); },
       [&] { return TRY(cuEventDestroy, s.event); }, [] {}},
      {"cuMemcpyHtoD (pageable, 4 KiB)", [] {},
       [&] { return TRY(cuMemcpyHtoD, s.plain, s.pageable.data(), size_t{4096}); }, [] {}},
      {"cuMemcpyDtoH (pageable, 4 KiB)", [] {},
       [&] { return TRY(cuMemcpyDtoH, s.pageable.data(), s.plain, size_t{4096}); }, [] {}},
      {"cuMemGetInfo", [] {},
       [&] {
         size_t free_bytes = 0, total = 0;
         return TRY(cuMemGetInfo, &free_bytes, &total);
       },
       [] {}},
  };
}

}  // namespace

void ProbeSynchronising() {
  OpenDevice();
  CUstream stream = nullptr;
  CUevent end = nullptr;
  State state;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  MUST(cuStreamCreate, &stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  MUST(cuStreamCreate, &state.stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  MUST(cuEventCreate, &end, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  MUST(cuMemAlloc, &state.plain, kSize);
  LaunchSpin(stream, 1000);  // loads the kernel
  Report("the spinning kernel alone", TimeUs([&] {
                                        LaunchSpin(stream, kSpinNs);
                                        MUST(cuStreamSynchronize, stream);
                                      }) / 1e3,
         "ms", "asked: 150 ms");
  for (const Candidate& candidate : MemoryCandidates(state)) Test(candidate, stream, end);
  for (const Candidate& candidate : OtherCandidates(state, module, function))
    Test(candidate, stream, end);
}

// The kernel adds to a word of the mapping when it ends; the mapping goes while it runs.
void ProbeUnmapInUse() {
  OpenDevice();
  CUstream stream = nullptr;
  State state;
  MUST(cuStreamCreate, &stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  LaunchSpin(stream, 1000);
  state.Reserve(), state.Create(), state.Map(), state.Allow();
  MUST(cuMemsetD8, state.address, static_cast<unsigned char>(0), kSize);
  MUST(cuCtxSynchronize);
  LaunchSpin(stream, kSpinNs, reinterpret_cast<unsigned*>(state.address));
  CUresult status = CUDA_SUCCESS;
  const double us = TimeUs([&] { status = TRY(cuMemUnmap, state.address, kSize); });
  ReportText("cuMemUnmap of memory in use",
             status == CUDA_SUCCESS ? "accepted" : ErrorName(status));
  Report("cuMemUnmap of memory in use took", us, "us", "the kernel runs 150 ms");
  const CUresult kernel = TRY(cuStreamSynchronize, stream);
  ReportText("the kernel ended with", ErrorName(kernel));
}

}  // namespace probe
