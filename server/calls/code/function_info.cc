// SPDX-License-Identifier: Apache-2.0
#include "server/calls/code/function_info.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace farcall::server {

namespace {

constexpr unsigned kFew = 4;
constexpr size_t kMaxParameters = 4096;

template <typename GetAttribute, typename GetParameter>
uint64_t Put(GetAttribute get_attribute, GetParameter get_parameter, Builder& out) {
  out.Put<uint64_t>(CU_FUNC_ATTRIBUTE_MAX);
  for (int id = 0; id < CU_FUNC_ATTRIBUTE_MAX; ++id) {
    int value = 0;
    if (get_attribute(&value, static_cast<CUfunction_attribute>(id)) != CUDA_SUCCESS) value = 0;
    out.Put<int32_t>(value);
  }
  std::vector<std::pair<uint32_t, uint32_t>> layout;
  uint64_t packed_bytes = 0;
  size_t offset = 0, bytes = 0;
  while (layout.size() < kMaxParameters &&
         get_parameter(layout.size(), &offset, &bytes) == CUDA_SUCCESS) {
    layout.emplace_back(offset, bytes);
    packed_bytes = std::max<uint64_t>(packed_bytes, offset + bytes);
  }
  out.Put<uint64_t>(layout.size());
  for (auto [at, size] : layout) {
    out.Put<uint32_t>(at);
    out.Put<uint32_t>(size);
  }
  return packed_bytes;
}

// `can_tell(item)`: it is loaded, or could be; what the driver has no room for is asked for by who
// uses it, and refused there.
template <typename Item, typename Owner, typename CanTell, typename PutInfo>
void PutFew(Owner owner, CUresult (*count_of)(unsigned*, Owner),
            CUresult (*list)(Item*, unsigned, Owner), CUresult (*name_of)(const char**, Item),
            CanTell can_tell, PutInfo put_info, Builder& out) {
  std::array<Item, kFew> items{};
  std::array<const char*, kFew> names{};
  unsigned count = 0;
  bool told = count_of != nullptr && list != nullptr && name_of != nullptr &&
              count_of(&count, owner) == CUDA_SUCCESS && count <= kFew &&
              list(items.data(), count, owner) == CUDA_SUCCESS;
  for (unsigned i = 0; told && i < count; ++i) {
    told =
        name_of(&names[i], items[i]) == CUDA_SUCCESS && names[i] != nullptr && can_tell(items[i]);
  }
  out.Put<uint64_t>(told ? count : 0);
  for (unsigned i = 0; told && i < count; ++i) {
    out.PutString(names[i]);
    put_info(items[i]);
  }
}

}  // namespace

uint64_t PutFunctionInfo(const DriverApi& api, CUfunction function, Builder& out) {
  return Put([&](int* value,
                 CUfunction_attribute id) { return api.cuFuncGetAttribute(value, id, function); },
             [&](size_t i, size_t* offset, size_t* bytes) {
               return api.cuFuncGetParamInfo(function, i, offset, bytes);
             },
             out);
}

uint64_t PutFunctionInfo(const DriverApi& api, CUkernel kernel, CUdevice device, Builder& out) {
  return Put(
      [&](int* value, CUfunction_attribute id) {
        return api.cuKernelGetAttribute(value, id, kernel, device);
      },
      [&](size_t i, size_t* offset, size_t* bytes) {
        return api.cuKernelGetParamInfo(kernel, i, offset, bytes);
      },
      out);
}

void PutFewFunctions(const DriverApi& api, CUmodule module, Builder& out) {
  auto can_tell = [&](CUfunction function) {
    int threads = 0;
    return api.cuFuncGetParamInfo != nullptr &&
           api.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function) ==
               CUDA_SUCCESS;
  };
  PutFew<CUfunction>(
      module, api.cuModuleGetFunctionCount, api.cuModuleEnumerateFunctions, api.cuFuncGetName,
      can_tell, [&](CUfunction function) { PutFunctionInfo(api, function, out); }, out);
}

void PutFewFunctions(const DriverApi& api, CUlibrary library, CUdevice device, Builder& out) {
  auto can_tell = [&](CUkernel kernel) {
    int threads = 0;
    return api.cuKernelGetParamInfo != nullptr &&
           api.cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel,
                                    device) == CUDA_SUCCESS;
  };
  PutFew<CUkernel>(
      library, api.cuLibraryGetKernelCount, api.cuLibraryEnumerateKernels, api.cuKernelGetName,
      can_tell, [&](CUkernel kernel) { PutFunctionInfo(api, kernel, device, out); }, out);
}

}  // namespace farcall::server
