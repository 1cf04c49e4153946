// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/export_tables.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>
#include <set>
#include <string>

#include "cuda-abi/context_storage.h"
#include "cuda-abi/log.h"

namespace farcall::cuda_abi {
namespace {

// The CUresult values the tables answer with.
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
constexpr int kInvalidHandle = 400;
constexpr int kNotSupported = 801;

ExportTableOwner* g_owner = nullptr;

#ifdef FARCALL_PRIVATE_TABLES

ContextHandle OrCurrent(ContextHandle context) {
  return context ? context : g_owner->CurrentContext();
}

// A slot nobody was seen to rely on: an error, said once per slot, never a jump to null.
template <int kTable, int kSlot>
int UnknownSlot() {
  static const bool logged = [] {
    Log(LogLevel::kWarn, "export table %08x: slot %d is not supported",
        static_cast<unsigned>(kTable), kSlot);
    return true;
  }();
  (void)logged;
  return kNotSupported;
}

// A slot the libraries call around each runtime call, where 0 means: nothing to do here.
int NothingToDo() {
  return kSuccess;
}

int CudartPrimaryContext(ContextHandle* context, int device) {
  return context == nullptr ? kInvalidValue : g_owner->PrimaryContext(device, context);
}

int CudartModule(ModuleHandle* module, const void* wrapper) {
  return module == nullptr || wrapper == nullptr ? kInvalidValue
                                                 : g_owner->LoadModule(wrapper, module);
}

int CudartModuleExt(ModuleHandle* module, const void* wrapper, void* a, void* b, uint32_t c) {
  return a != nullptr || b != nullptr || c != 0 ? kNotSupported : CudartModule(module, wrapper);
}

int CudartModuleFromContainer(const void* container, ModuleHandle* module, void* a, void* b,
                              uint32_t c) {
  return CudartModuleExt(module, container, a, b, c);
}

// Zeroed buffers that the runtime reads as "no tool is attached".
template <int kWhich, size_t kBytes>
void ToolsBuffer(void** buffer, size_t* bytes) {
  static uint64_t zeros[kBytes / sizeof(uint64_t)];
  *buffer = zeros;
  *bytes = kBytes;
}

int StoragePut(ContextHandle context, void* key, void* value, ContextStorageDestructor destroy) {
  context = OrCurrent(context);
  if (context == nullptr) return kInvalidContext;
  PutContextStorage(context, key, value, destroy);
  return kSuccess;
}

int StorageDelete(ContextHandle context, void* key) {
  context = OrCurrent(context);
  if (context == nullptr) return kInvalidContext;
  DeleteContextStorage(context, key);
  return kSuccess;
}

int StorageGet(void** value, ContextHandle context, void* key) {
  context = OrCurrent(context);
  if (context == nullptr) return kInvalidContext;
  return GetContextStorage(context, key, value) ? kSuccess : kInvalidHandle;
}

int ContextCheck(ContextHandle, uint32_t* flags, const void**) {
  if (flags == nullptr) return kInvalidValue;
  *flags = 0;
  return kSuccess;
}

int IntegrityCheck(uint32_t version, uint64_t unix_seconds, uint64_t* answer);

// Tools' view of a context. Zeros say: an ordinary context, no tool attached.
int ToolsContextZero2(uint64_t, uint64_t* out) {
  if (out == nullptr) return kInvalidValue;
  *out = 0;
  return kSuccess;
}

int ToolsContextZero3(uint64_t, uint64_t, uint64_t* out) {
  if (out == nullptr) return kInvalidValue;
  *out = 0;
  return kSuccess;
}

// Calls back with each function of a module; returns how many.
using FunctionCallback = void (*)(void* opaque, FunctionHandle function, void* owner);
int ToolsModuleFunctions(ContextHandle, ModuleHandle module, FunctionCallback callback,
                         void* opaque) {
  std::vector<FunctionHandle> functions;
  if (callback == nullptr || g_owner->ModuleFunctions(module, &functions) != kSuccess) return 0;
  for (FunctionHandle function : functions) callback(opaque, function, module);
  return static_cast<int>(functions.size());
}

template <typename F>
const void* Slot(F* function) {
  return reinterpret_cast<const void*>(function);
}

template <size_t kSlots>
const void* SizeSlot() {
  return reinterpret_cast<const void*>(kSlots * sizeof(void*));
}

template <int kTable>
struct Unknown {
  template <int kSlot>
  static const void* At() {
    return Slot(&UnknownSlot<kTable, kSlot>);
  }
};

constexpr int kCudartId = 0x6bd5fb6c;
constexpr int kModuleId = 0x6e163fbe;
constexpr int kContextId = 0x21318c60;
constexpr int kGemmId = 0x1734dc26;
using C = Unknown<kCudartId>;
using M = Unknown<kModuleId>;

const void* const kCudartInterface[13] = {
    SizeSlot<13>(), Slot(&CudartModule), Slot(&CudartPrimaryContext), C::At<3>(), C::At<4>(),
    C::At<5>(), Slot(&CudartModuleExt), Slot(&NothingToDo), Slot(&CudartModuleFromContainer),
    C::At<9>(), C::At<10>(), C::At<11>(),
    // "Load the compilers": the owner brings its own when it needs one.
    Slot(&NothingToDo)};

const void* const kToolsHooks[7] = {
    SizeSlot<7>(),      Slot(&NothingToDo), Slot(&ToolsBuffer<0, 1024>), Slot(&NothingToDo),
    Slot(&NothingToDo), Slot(&NothingToDo), Slot(&ToolsBuffer<1, 128>)};

const void* const kToolsTls[4] = {SizeSlot<4>(), Slot(&NothingToDo), Slot(&NothingToDo),
                                  Slot(&NothingToDo)};

const void* const kContextStorage[4] = {Slot(&StoragePut), Slot(&StorageDelete), Slot(&StorageGet),
                                        Slot(&NothingToDo)};

const void* const kContextChecks[4] = {SizeSlot<4>(), Slot(&NothingToDo), Slot(&ContextCheck),
                                       Slot(&NothingToDo)};

// CUPTI's. Callers use no slot beyond the size, so this one offers nothing, and the profiler goes
// on without the device's times. Without the table CUPTI 13.2 asks itself for the error's name
// until the stack ends.
const void* const kProfiling[1] = {SizeSlot<1>()};

const void* const kIntegrityCheck[3] = {SizeSlot<3>(), Slot(&IntegrityCheck), Slot(&NothingToDo)};

template <int kTable, size_t... kIndex>
std::vector<const void*> UnknownSlots(std::index_sequence<kIndex...>) {
  return {Slot(&UnknownSlot<kTable, static_cast<int>(kIndex)>)...};
}

const void* ToolsContextTable() {
  static const auto* table = [] {
    auto* slots =
        new std::vector<const void*>(UnknownSlots<kContextId>(std::make_index_sequence<64>()));
    (*slots)[0] = SizeSlot<64>();
    (*slots)[4] = Slot(&ToolsContextZero2);
    (*slots)[39] = Slot(&ToolsContextZero3);
    (*slots)[51] = Slot(&ToolsContextZero3);
    return slots;
  }();
  return table->data();
}

// Asked by cuBLASLt for compute capability 9.0, which calls slot 4 unlooked and goes on when that
// fails.
const void* GemmTable() {
  static const auto* table = [] {
    auto* slots =
        new std::vector<const void*>(UnknownSlots<kGemmId>(std::make_index_sequence<64>()));
    (*slots)[0] = SizeSlot<64>();
    return slots;
  }();
  return table->data();
}

const void* ToolsModuleTable() {
  static const auto* table = [] {
    auto* slots =
        new std::vector<const void*>(UnknownSlots<kModuleId>(std::make_index_sequence<64>()));
    (*slots)[0] = SizeSlot<64>();
    (*slots)[7] = Slot(&ToolsModuleFunctions);
    return slots;
  }();
  return table->data();
}

int IntegrityCheck(uint32_t version, uint64_t unix_seconds, uint64_t* answer) {
  if (answer == nullptr) return kInvalidValue;
  IntegrityInputs inputs;
  inputs.driver_version = static_cast<uint32_t>(g_owner->DriverVersion());
  inputs.version = version;
  inputs.process_id = static_cast<uint32_t>(getpid());
  inputs.thread_id = static_cast<uint32_t>(pthread_self());
  inputs.cudart_table = kCudartInterface;
  inputs.integrity_table = kIntegrityCheck;
  inputs.check_function = kIntegrityCheck[1];
  inputs.unix_seconds = unix_seconds;
  inputs.devices = g_owner->Devices();
  const auto result = IntegrityAnswer(inputs);
  memcpy(answer, result.data(), sizeof(result));
  return kSuccess;
}

struct Known {
  uint8_t uuid[16];
  const void* (*table)();
};

const Known kKnown[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
      0xf9},
     [] { return static_cast<const void*>(kCudartInterface); }},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
      0x66},
     [] { return static_cast<const void*>(kToolsHooks); }},
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
      0xdc},
     [] { return static_cast<const void*>(kToolsTls); }},
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
      0x93},
     [] { return static_cast<const void*>(kContextStorage); }},
    {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
      0x7e},
     [] { return static_cast<const void*>(kContextChecks); }},
    {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
      0xf2},
     [] { return static_cast<const void*>(kIntegrityCheck); }},
    {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
      0xf2},
     &ToolsContextTable},
    {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99,
      0x1e},
     &ToolsModuleTable},
    {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b,
      0xca},
     &GemmTable},
    {{0x7c, 0xb6, 0x3f, 0x9b, 0x9c, 0xa4, 0x8e, 0x42, 0xa4, 0x84, 0xbe, 0xb6, 0x6e, 0x6a, 0xed,
      0x7f},
     [] { return static_cast<const void*>(kProfiling); }},
};

#endif  // FARCALL_PRIVATE_TABLES

// Those who ask for these take NOT_FOUND for an answer: no reason for a warning.
constexpr uint8_t kOptional[][16] = {
    // Every cudart 13, first of all.
    {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d,
     0xd9},
    // NVRTC 13 when it compiles, which it also does where there is no driver.
    {0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3,
     0x28}};

bool IsOptional(const uint8_t (&uuid)[16]) {
  return std::any_of(std::begin(kOptional), std::end(kOptional), [&](const auto& optional) {
    return memcmp(optional, uuid, sizeof(uuid)) == 0;
  });
}

void LogUnknown(const uint8_t (&uuid)[16]) {
  static std::mutex* mutex = new std::mutex;
  static auto* seen = new std::set<std::string>;
  std::string hex;
  for (uint8_t byte : uuid) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", byte);
    hex += digits;
  }
  std::lock_guard lock(*mutex);
  if (!seen->insert(hex).second) return;
  Log(IsOptional(uuid) ? LogLevel::kDebug : LogLevel::kWarn, "cuGetExportTable: no table %s",
      hex.c_str());
}

}  // namespace

void SetExportTableOwner(ExportTableOwner* owner) {
  g_owner = owner;
}

const void* FindExportTable(const uint8_t (&uuid)[16]) {
#ifdef FARCALL_PRIVATE_TABLES
  for (const Known& known : kKnown)
    if (g_owner != nullptr && memcmp(known.uuid, uuid, sizeof(uuid)) == 0) return known.table();
#endif
  LogUnknown(uuid);
  return nullptr;
}

}  // namespace farcall::cuda_abi
