// SPDX-License-Identifier: Apache-2.0
// The functions a library gets in the place of the driver's: each charges, then calls the driver's.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <limits>

#include "server/memory/library_memory.h"

namespace farcall::server {

namespace {

LibraryMemory& Here() {
  return *LibraryMemory::Watching();
}

const DriverApi& Driver() {
  return Here().api();
}

// Charges `bytes`, then lets `ask` fill the address.
template <typename Ask>
CUresult TakeAt(CUdeviceptr* address, size_t bytes, const Ask& ask) {
  if (address == nullptr || bytes == 0) return ask();  // which refuses it
  return Here().TakeHere(bytes, [&](uint64_t* made) {
    const CUresult result = ask();
    *made = *address;
    return result;
  });
}

CUresult MemAlloc(CUdeviceptr* address, size_t bytes) {
  return TakeAt(address, bytes, [&] { return Driver().cuMemAlloc_v2(address, bytes); });
}

// No driver's rows are farther apart than this says; what it needs is known once it has answered.
CUresult MemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                       unsigned element) {
  constexpr size_t kRowBytes = 512;
  constexpr size_t kMax = std::numeric_limits<size_t>::max() / 2;
  const auto ask = [&] {
    return Driver().cuMemAllocPitch_v2(address, pitch, width, height, element);
  };
  if (address == nullptr || width == 0 || height == 0 || width > kMax - kRowBytes ||
      (width + kRowBytes) > kMax / height)
    return ask();  // which refuses it
  const size_t rows = (width + kRowBytes - 1) / kRowBytes * kRowBytes;
  return TakeAt(address, rows * height, ask);
}

CUresult MemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
  return TakeAt(address, bytes, [&] { return Driver().cuMemAllocManaged(address, bytes, flags); });
}

// The driver's, as found: with streams of a thread's own there is another one of each.
enum Streams { kShared, kOwn, kStreamsCount };
std::atomic<void*> found_alloc[kStreamsCount], found_alloc_from_pool[kStreamsCount],
    found_free[kStreamsCount];

template <Streams kStreams>
CUresult MemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  const auto call = reinterpret_cast<decltype(&::cuMemAllocAsync)>(found_alloc[kStreams].load());
  return TakeAt(address, bytes, [&] { return call(address, bytes, stream); });
}

template <Streams kStreams>
CUresult MemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                               CUstream stream) {
  const auto call = reinterpret_cast<decltype(&::cuMemAllocFromPoolAsync)>(
      found_alloc_from_pool[kStreams].load());
  return TakeAt(address, bytes, [&] { return call(address, bytes, pool, stream); });
}

CUresult MemFree(CUdeviceptr address) {
  return Here().Give(address, [&] { return Driver().cuMemFree_v2(address); });
}

template <Streams kStreams>
CUresult MemFreeAsync(CUdeviceptr address, CUstream stream) {
  const auto call = reinterpret_cast<decltype(&::cuMemFreeAsync)>(found_free[kStreams].load());
  return Here().Give(address, [&] { return call(address, stream); });
}

CUresult MemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                   const CUmemAllocationProp* properties, unsigned long long flags) {
  const auto ask = [&] { return Driver().cuMemCreate(handle, bytes, properties, flags); };
  if (handle == nullptr || properties == nullptr ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return ask();
  return Here().Take(properties->location.id, bytes, false, [&](uint64_t* made) {
    const CUresult result = ask();
    *made = *handle;
    return result;
  });
}

CUresult MemRelease(CUmemGenericAllocationHandle handle) {
  return Here().Give(handle, [&] { return Driver().cuMemRelease(handle); });
}

CUresult MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Here().Info(free_bytes, total_bytes);
}

CUresult GetProcAddressV2(const char* symbol, void** entry, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* found);
CUresult GetProcAddress(const char* symbol, void** entry, int version, cuuint64_t flags);

struct Place {
  const char* exported;
  const char* symbol;  // to cuGetProcAddress
  bool per_thread;
  void* instead;
  std::atomic<void*>* found = nullptr;  // where the driver's is to be noted
};

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

const Place kPlaces[] = {
    {"cuMemAlloc_v2", "cuMemAlloc", false, Address(MemAlloc)},
    {"cuMemAllocPitch_v2", "cuMemAllocPitch", false, Address(MemAllocPitch)},
    {"cuMemAllocManaged", "cuMemAllocManaged", false, Address(MemAllocManaged)},
    {"cuMemAllocAsync", "cuMemAllocAsync", false, Address(MemAllocAsync<kShared>),
     &found_alloc[kShared]},
    {"cuMemAllocAsync_ptsz", "cuMemAllocAsync", true, Address(MemAllocAsync<kOwn>),
     &found_alloc[kOwn]},
    {"cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", false,
     Address(MemAllocFromPoolAsync<kShared>), &found_alloc_from_pool[kShared]},
    {"cuMemAllocFromPoolAsync_ptsz", "cuMemAllocFromPoolAsync", true,
     Address(MemAllocFromPoolAsync<kOwn>), &found_alloc_from_pool[kOwn]},
    {"cuMemFree_v2", "cuMemFree", false, Address(MemFree)},
    {"cuMemFreeAsync", "cuMemFreeAsync", false, Address(MemFreeAsync<kShared>),
     &found_free[kShared]},
    {"cuMemFreeAsync_ptsz", "cuMemFreeAsync", true, Address(MemFreeAsync<kOwn>), &found_free[kOwn]},
    {"cuMemCreate", "cuMemCreate", false, Address(MemCreate)},
    {"cuMemRelease", "cuMemRelease", false, Address(MemRelease)},
    {"cuMemGetInfo_v2", "cuMemGetInfo", false, Address(MemGetInfo)},
    {"cuGetProcAddress", nullptr, false, Address(GetProcAddress)},
    {"cuGetProcAddress_v2", "cuGetProcAddress", false, Address(GetProcAddressV2)},
};

void* UseInstead(const Place& place, void* found) {
  if (place.found != nullptr) place.found->store(found);
  return place.instead;
}

// What a driver found by this name, in a version for 64 bits.
void* InPlaceOf(const char* symbol, void* found, int version, cuuint64_t flags) {
  constexpr int kWide = 3020, kQueryResult = 12000;
  if (symbol == nullptr || found == nullptr || version < kWide) return found;
  if (std::strcmp(symbol, "cuGetProcAddress") == 0 && version < kQueryResult)
    return Address(GetProcAddress);
  const Place* fits = nullptr;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  for (const Place& place : kPlaces) {
    if (place.symbol == nullptr || std::strcmp(place.symbol, symbol) != 0) continue;
    if (!place.per_thread || per_thread) fits = &place;  // its own variant comes second
  }
  return fits == nullptr ? found : UseInstead(*fits, found);
}

CUresult GetProcAddressV2(const char* symbol, void** entry, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* found) {
  const CUresult result = Driver().cuGetProcAddress_v2(symbol, entry, version, flags, found);
  if (result == CUDA_SUCCESS && entry != nullptr)
    *entry = InPlaceOf(symbol, *entry, version, flags);
  return result;
}

CUresult GetProcAddress(const char* symbol, void** entry, int version, cuuint64_t flags) {
  const CUresult result = Driver().cuGetProcAddress(symbol, entry, version, flags);
  if (result == CUDA_SUCCESS && entry != nullptr)
    *entry = InPlaceOf(symbol, *entry, version, flags);
  return result;
}

// Of the libcuda that this process works on; not of another that it stands in front of.
bool IsDrivers(void* function) {
  Dl_info of_function, of_driver;
  return dladdr(function, &of_function) != 0 &&
         dladdr(reinterpret_cast<void*>(Driver().cuInit), &of_driver) != 0 &&
         of_function.dli_fbase == of_driver.dli_fbase;
}

}  // namespace

void* LibraryMemory::Instead(const char* name, void* found) {
  if (found == nullptr || name == nullptr || std::strncmp(name, "cu", 2) != 0 ||
      Watching() == nullptr)
    return found;
  for (const Place& place : kPlaces)
    if (std::strcmp(place.exported, name) == 0)
      return IsDrivers(found) ? UseInstead(place, found) : found;
  return found;
}

}  // namespace farcall::server
