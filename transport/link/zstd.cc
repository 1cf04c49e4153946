// SPDX-License-Identifier: Apache-2.0
#include "transport/link/zstd.h"

#include <dlfcn.h>

namespace farcall {
namespace {

template <typename Function>
bool Resolve(void* library, const char* name, Function* into) {
  *into = reinterpret_cast<Function>(dlsym(library, name));
  return *into != nullptr;
}

const Zstd* Load() {
  void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  static Zstd zstd;
  const bool has_all = Resolve(library, "ZSTD_createCCtx", &zstd.create_compressor) &&
                       Resolve(library, "ZSTD_freeCCtx", &zstd.free_compressor) &&
                       Resolve(library, "ZSTD_compressCCtx", &zstd.compress) &&
                       Resolve(library, "ZSTD_createDCtx", &zstd.create_decompressor) &&
                       Resolve(library, "ZSTD_freeDCtx", &zstd.free_decompressor) &&
                       Resolve(library, "ZSTD_decompressDCtx", &zstd.decompress) &&
                       Resolve(library, "ZSTD_isError", &zstd.is_error);
  return has_all ? &zstd : nullptr;
}

}  // namespace

const Zstd* FindZstd() {
  static const Zstd* const found = Load();
  return found;
}

}  // namespace farcall
