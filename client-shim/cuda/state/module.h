// SPDX-License-Identifier: Apache-2.0
// Modules, libraries and their functions as the client knows them.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/objects/image.h"

namespace farcall::client {

struct Parameter {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

// What the driver said about a kernel; immutable, shared by all handles, kept on disk.
struct KernelInfo {
  std::string name;
  std::vector<int32_t> attributes;  // by CUfunction_attribute
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t last_word = 0;  // offset of the last word of 8 bytes that holds some of them
  bool has_gaps = false;   // between parameters: bytes that no parameter fills
  // From parameters.
  void Measure();
  int Attribute(int id) const {
    return id >= 0 && static_cast<size_t>(id) < attributes.size() ? attributes[id] : 0;
  }
};

struct Module;

// What was set for a kernel, or for a function that came from it, and by which handle.
struct FunctionSetting {
  uint64_t handle;
  int attribute, device, value;
  bool operator==(const FunctionSetting&) const = default;
};

// A CUfunction or a CUkernel. Never deleted: a launch may race with an unload.
struct Function {
  uint64_t handle = 0;
  Module* parent = nullptr;
  const KernelInfo* info = nullptr;
  std::atomic<int> max_dynamic_shared{-1};  // set by the application; -1: as in info
  std::atomic<int> carveout{-1};
  uint32_t max_threads = 0;                      // per block; 0 = no own bound
  uint32_t registers = 0;                        // of a thread, in machine code
  std::atomic<uint32_t> launch_shared_limit{0};  // bytes of dynamic shared memory a launch may ask
  std::atomic<bool> is_new{false};  // its first launch is to be noted (core/first_run.h)
  // `info`, and what launches look at.
  void SetInfo(const KernelInfo* of);
  void SetMaxDynamicShared(int bytes);
  std::atomic<uint32_t> servers{0};  // of a CUkernel: where it is known
  Function* kernel = nullptr;        // the CUkernel a CUfunction came from

  // Of a kernel, and of a function that came from none.
  struct InContext {
    const Context* context;
    uint32_t ends;  // of the context when it was asked
    Function* function;
  };
  std::mutex mutex;
  std::vector<InContext> functions;       // that cuKernelGetFunction gave
  std::vector<FunctionSetting> settings;  // as they are now
  std::vector<FunctionSetting> taken;     // that the device accepted
  uint64_t mixed = 0;                     // how often one handle overruled another
  uint64_t state = 0;                     // of the settings; 0: none
};

struct Symbol {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// A CUmodule or a CUlibrary.
struct Module {
  uint64_t handle = 0;
  bool is_library = false;
  Context* context = nullptr;  // of a module
  Module* library = nullptr;   // a module that cuLibraryGetModule gave
  std::shared_ptr<Image> image;
  // Of a library, in a process with several servers: where it is loaded, and the record that does.
  std::atomic<uint32_t> servers{0};
  std::vector<std::byte> load_body;
  std::mutex mutex;
  std::map<std::string, Function*, std::less<>> functions;
  std::map<std::string, Symbol, std::less<>> symbols;
  std::map<std::string, Symbol, std::less<>> managed;  // where the program has them
};

Module* FindModule(CUmodule module);
Module* FindLibrary(CUlibrary library);
// A function, or a kernel in a function's place.
inline Function* FindFunction(uint64_t handle) {
  void* object = nullptr;
  const bool is_live = FindLive<HandleKind::kFunction>(handle, &object) ||
                       FindLive<HandleKind::kKernel>(handle, &object);
  return is_live ? static_cast<Function*>(object) : nullptr;
}

struct LoadOptions {
  unsigned count = 0;
  CUjit_option* options = nullptr;
  void** values = nullptr;
};
// Loads from the application's pointer: finds the image's form and length, sends what the server
// lacks.
CUresult LoadImage(const void* image, const LoadOptions& options, bool is_library, Module** module);
CUresult ReadImageFile(const char* path, std::vector<std::byte>* bytes);
// The same for a whole file.
CUresult LoadImageFile(const char* path, const LoadOptions& options, bool is_library,
                       Module** module);
// The function or kernel `name`; from the client's knowledge if it has it.
CUresult GetFunction(Module* module, const char* name, Function** function);
CUresult GetSymbol(Module* module, const char* name, Symbol* symbol);
// A library's __managed__ variables are the program's no more; ahead of the unload.
void DropManagedVariables(Module* module);
// In a process with several servers: the kernel is one of a library's, or the function one of the
// current context's server, and is there when this returns.
CUresult BringHere(Function* function);
// The client's side of an unload.
void DropModule(Module* module);

}  // namespace farcall::client
