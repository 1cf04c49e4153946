// SPDX-License-Identifier: Apache-2.0
// The probe's sections about memory: addresses, virtual memory management, sharing, allocation.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "probe_support.h"

namespace probe {
namespace {

constexpr size_t kMiB = size_t{1} << 20, kGiB = size_t{1} << 30, kTiB = size_t{1} << 40;

CUmemAllocationProp Properties(bool posix_fd, bool rdma) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  if (posix_fd) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.allocFlags.gpuDirectRDMACapable = rdma;
  return properties;
}

CUmemAccessDesc ReadWrite() {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 0;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

std::string Hex(unsigned long long value) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", value);
  return text;
}

// Whether this process's map has something at `address`.
bool HostMapped(unsigned long long address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx", &from, &to) == 2 && from <= address && address < to)
      return true;
  }
  return false;
}

void TryHint(unsigned long long base, size_t size, const char* note) {
  CUdeviceptr got = 0;
  CUresult status = CUDA_SUCCESS;
  const double us =
      TimeUs([&] { status = TRY(cuMemAddressReserve, &got, size, size_t{0}, base, 0ull); });
  const std::string name = Hex(base) + ", " + SizeName(size) + note;
  if (status != CUDA_SUCCESS) {
    ReportText(name, ErrorName(status));
    return;
  }
  char detail[96];
  std::snprintf(detail, sizeof(detail), "got %s in %.0f us; host map shows it: %s",
                Hex(got).c_str(), us, HostMapped(got) ? "yes" : "no");
  ReportText(name, got == base ? "honoured" : "elsewhere", detail);
  MUST(cuMemAddressFree, got, size);
}

}  // namespace

void ProbeAddressHints() {
  OpenDevice();
  const unsigned long long bases[] = {0x200000000000, 0x100000000000, 0x300000000000,
                                      0x400000000000, 0x500000000000, 0x600000000000,
                                      0x80000000000,  0x10000000000};
  for (unsigned long long base : bases)
    for (size_t size : {kGiB, 256 * kGiB, kTiB, 8 * kTiB}) TryHint(base, size, "");
  // The range may be taken in the process that asks: by a reservation as the client makes it.
  const unsigned long long base = 0x280000000000;
  void* held = mmap(reinterpret_cast<void*>(base), 64 * kGiB, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (held == MAP_FAILED) {
    ReportText("host reservation at " + Hex(base), "not possible");
    return;
  }
  TryHint(base, 64 * kGiB, ", held by the host");
  munmap(held, 64 * kGiB);
  TryHint(base, 64 * kGiB, ", after the host let go");
}

namespace {

struct VmmTimes {
  std::vector<double> reserve, create, map, access, unmap, release, free;
};

// One life of a mapped chunk, timed call by call.
void LiveOnce(size_t size, const CUmemAllocationProp& properties, VmmTimes* times) {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAccessDesc access = ReadWrite();
  VmmTimes& t = *times;
  t.reserve.push_back(
      TimeUs([&] { MUST(cuMemAddressReserve, &address, size, size_t{0}, CUdeviceptr{0}, 0ull); }));
  t.create.push_back(TimeUs([&] { MUST(cuMemCreate, &handle, size, &properties, 0ull); }));
  t.map.push_back(TimeUs([&] { MUST(cuMemMap, address, size, size_t{0}, handle, 0ull); }));
  t.access.push_back(TimeUs([&] { MUST(cuMemSetAccess, address, size, &access, size_t{1}); }));
  t.unmap.push_back(TimeUs([&] { MUST(cuMemUnmap, address, size); }));
  t.release.push_back(TimeUs([&] { MUST(cuMemRelease, handle); }));
  t.free.push_back(TimeUs([&] { MUST(cuMemAddressFree, address, size); }));
}

void ReportLives(size_t size, bool posix_fd, bool rdma) {
  const CUmemAllocationProp properties = Properties(posix_fd, rdma);
  const std::string prefix =
      SizeName(size) + (posix_fd ? " fd" : "") + (rdma ? " rdma" : "") + ": ";
  CUmemGenericAllocationHandle handle = 0;
  const CUresult status = TRY(cuMemCreate, &handle, size, &properties, 0ull);
  if (status != CUDA_SUCCESS) {
    ReportText(prefix + "cuMemCreate", ErrorName(status));
    return;
  }
  MUST(cuMemRelease, handle);
  VmmTimes times;
  for (int i = 0; i < (size >= kGiB ? 5 : 15); ++i) LiveOnce(size, properties, &times);
  Report(prefix + "cuMemAddressReserve", Median(times.reserve), "us");
  Report(prefix + "cuMemCreate", Median(times.create), "us");
  Report(prefix + "cuMemMap", Median(times.map), "us");
  Report(prefix + "cuMemSetAccess", Median(times.access), "us");
  Report(prefix + "cuMemUnmap", Median(times.unmap), "us");
  Report(prefix + "cuMemRelease", Median(times.release), "us");
  Report(prefix + "cuMemAddressFree", Median(times.free), "us");
}

}  // namespace

void ProbeVmm() {
  OpenDevice();
  for (bool rdma : {false, true}) {
    const CUmemAllocationProp properties = Properties(true, rdma);
    size_t minimum = 0, recommended = 0;
    MUST(cuMemGetAllocationGranularity, &minimum, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    MUST(cuMemGetAllocationGranularity, &recommended, &properties,
         CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    Report(rdma ? "granularity, rdma" : "granularity", minimum / 1024.0, "KiB",
           "recommended: " + SizeName(recommended));
  }
  for (size_t size : {2 * kMiB, 64 * kMiB, kGiB}) {
    ReportLives(size, false, false);
    ReportLives(size, true, false);
    ReportLives(size, true, true);
  }
}

void ProbeVmmSmoke() {
  OpenDevice();
  const size_t size = 2 * kMiB;
  const CUmemAllocationProp properties = Properties(true, false);
  const CUmemAccessDesc access = ReadWrite();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  Report("under MPS", DeviceAttribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED), "-");
  MUST(cuMemAddressReserve, &address, size, size_t{0}, CUdeviceptr{0x200000000000}, 0ull);
  ReportText("hint 0x200000000000", address == 0x200000000000 ? "honoured" : "elsewhere");
  MUST(cuMemCreate, &handle, size, &properties, 0ull);
  MUST(cuMemMap, address, size, size_t{0}, handle, 0ull);
  MUST(cuMemSetAccess, address, size, &access, size_t{1});
  MUST(cuMemsetD8, address, static_cast<unsigned char>(0xA5), size);
  std::vector<unsigned char> back(size);
  MUST(cuMemcpyDtoH, back.data(), address, size);
  const auto wrong =
      std::count_if(back.begin(), back.end(), [](auto byte) { return byte != 0xA5; });
  if (wrong) EndSection(std::to_string(wrong) + " bytes came back changed");
  ReportText("2 MiB written and read back", "yes");
  MUST(cuMemUnmap, address, size);
  MUST(cuMemRelease, handle);
  MUST(cuMemAddressFree, address, size);
}

void ProbeSharing() {
  OpenDevice();
  const size_t size = 64 * kMiB;
  const CUmemAllocationProp properties = Properties(true, false);
  CUmemGenericAllocationHandle handle = 0, imported = 0;
  MUST(cuMemCreate, &handle, size, &properties, 0ull);
  int fd = -1;
  const auto export_once = [&] {
    MUST(cuMemExportToShareableHandle, &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ull);
  };
  Report("cuMemExportToShareableHandle (64 MiB)",
         MedianUs(20,
                  [&] {
                    if (fd >= 0) close(fd);
                    export_once();
                  }),
         "us", "with close of the descriptor before");
  Report("cuMemImportFromShareableHandle",
         MedianUs(20,
                  [&] {
                    if (imported) MUST(cuMemRelease, imported);
                    MUST(cuMemImportFromShareableHandle, &imported,
                         reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
                  }),
         "us", "same process, with release of the handle before");
  MUST(cuMemRelease, imported);
  close(fd);

  CUdeviceptr address = 0;
  const CUmemAccessDesc access = ReadWrite();
  MUST(cuMemAddressReserve, &address, size, size_t{0}, CUdeviceptr{0}, 0ull);
  MUST(cuMemMap, address, size, size_t{0}, handle, 0ull);
  MUST(cuMemSetAccess, address, size, &access, size_t{1});
  int dmabuf = -1;
  const CUresult status = TRY(cuMemGetHandleForAddressRange, &dmabuf, address, size,
                              CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0ull);
  ReportText("dma-buf of a VMM mapping", status == CUDA_SUCCESS ? "yes" : ErrorName(status));
  if (dmabuf >= 0) close(dmabuf);

  const CUmemAllocationProp rdma_properties = Properties(true, true);
  CUmemGenericAllocationHandle rdma = 0;
  const CUresult created = TRY(cuMemCreate, &rdma, size, &rdma_properties, 0ull);
  ReportText("cuMemCreate with gpuDirectRDMACapable",
             created == CUDA_SUCCESS ? "yes" : ErrorName(created));
}

namespace {

// Pinned memory made of a memfd at an address of our choice, as the shim and the worker share it.
void ProbeRegistered(size_t size) {
  const unsigned long long base = 0x180000000000;
  const int fd = memfd_create("probe", 0);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) EndSection("cannot create a memfd");
  void* host = mmap(reinterpret_cast<void*>(base), size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_POPULATE, fd, 0);
  if (host == MAP_FAILED) EndSection("cannot map a memfd at " + Hex(base));
  const std::string suffix = " (memfd, " + SizeName(size) + ")";
  CUdeviceptr device = 0;
  CUresult status = CUDA_SUCCESS;
  const double us = TimeUs([&] {
    status = TRY(cuMemHostRegister, host, size,
                 static_cast<unsigned>(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
  });
  if (status != CUDA_SUCCESS) {
    ReportText("cuMemHostRegister" + suffix, ErrorName(status));
  } else {
    Report("cuMemHostRegister" + suffix, us, "us");
    MUST(cuMemHostGetDevicePointer, &device, host, 0u);
    ReportText("device address equals host address" + suffix, device == base ? "yes" : "no");
    Report("cuMemHostUnregister" + suffix, TimeUs([&] { MUST(cuMemHostUnregister, host); }), "us");
  }
  munmap(host, size);
  close(fd);
}

}  // namespace

void ProbeAllocation() {
  OpenDevice();
  for (size_t size : {size_t{256}, kMiB, 64 * kMiB, kGiB}) {
    std::vector<double> alloc, free, pool_alloc, pool_free;
    for (int i = 0; i < 11; ++i) {
      CUdeviceptr address = 0;
      alloc.push_back(TimeUs([&] { MUST(cuMemAlloc, &address, size); }));
      free.push_back(TimeUs([&] { MUST(cuMemFree, address); }));
      pool_alloc.push_back(TimeUs([&] { MUST(cuMemAllocAsync, &address, size, CUstream{}); }));
      pool_free.push_back(TimeUs([&] { MUST(cuMemFreeAsync, address, CUstream{}); }));
      MUST(cuCtxSynchronize);
    }
    Report("cuMemAlloc (" + SizeName(size) + ")", Median(alloc), "us");
    Report("cuMemFree (" + SizeName(size) + ")", Median(free), "us");
    Report("cuMemAllocAsync (" + SizeName(size) + ")", Median(pool_alloc), "us");
    Report("cuMemFreeAsync (" + SizeName(size) + ")", Median(pool_free), "us");
  }
  for (size_t size : {size_t{4096}, kMiB, 64 * kMiB, 256 * kMiB}) {
    std::vector<double> alloc, free;
    for (int i = 0; i < 5; ++i) {
      void* host = nullptr;
      alloc.push_back(TimeUs([&] {
        MUST(cuMemHostAlloc, &host, size,
             static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
      }));
      free.push_back(TimeUs([&] { MUST(cuMemFreeHost, host); }));
    }
    Report("cuMemHostAlloc (" + SizeName(size) + ")", Median(alloc), "us");
    Report("cuMemFreeHost (" + SizeName(size) + ")", Median(free), "us");
    ProbeRegistered(size);
  }
}

}  // namespace probe
