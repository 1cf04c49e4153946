// SPDX-License-Identifier: Apache-2.0
// Launches.
#include "cpu-device/driver/work/launch.h"

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/executor.h"
#include "cpu-device/driver/state/module.h"
#include "cpu-device/driver/state/stream.h"

namespace farcall::cpu_device {
namespace {

CUresult Launch(CUfunction handle, const LaunchConfig& config, CUstream stream_handle,
                void** params, void** extra) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Stream> stream = context->FindStream(stream_handle);
  if (stream == nullptr || &stream->context() != context.get()) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Function> function;
  if (const CUresult result = ResolveFunction(*context, handle, &function)) return result;
  KernelOp op;
  if (const CUresult result = PrepareLaunch(function, config, params, extra, &op)) return result;
  PrepareDeviceHeap(*context);
  // What cannot be compiled is the launch's own error and leaves the context whole.
  if (const CUresult result = function->Load()) return result;
  return SubmitOp(*stream, std::move(op), How::kQueue);
}

CUresult ReadAttributes(const CUlaunchConfig& from, LaunchConfig* config) {
  for (unsigned i = 0; i < from.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = from.attrs[i];
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        config->cooperative = attribute.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        config->cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y,
                           attribute.value.clusterDim.z};
        break;
      // Hints. Programmatic serialisation allows an overlap that this device does not make use of,
      // and a preferred cluster may be replaced by the regular one.
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        break;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

CUresult LaunchEx(const CUlaunchConfig* from, CUstream stream, CUfunction function, void** params,
                  void** extra) {
  if (from == nullptr || (from->numAttrs != 0 && from->attrs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  LaunchConfig config;
  config.grid = {from->gridDimX, from->gridDimY, from->gridDimZ};
  config.block = {from->blockDimX, from->blockDimY, from->blockDimZ};
  config.dynamic_shared_bytes = from->sharedMemBytes;
  if (const CUresult result = ReadAttributes(*from, &config)) return result;
  return Launch(function, config, stream, params, extra);
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream, void** params,
                        void** extra) {
  return Launch(function,
                {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {}, shared, false}, stream,
                params, extra);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                             unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                             unsigned int block_z, unsigned int shared, CUstream stream,
                             void** params, void** extra) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                        Ptsz(stream), params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                          void** extra) {
  return LaunchEx(config, config == nullptr ? nullptr : config->hStream, function, params, extra);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** params,
                               void** extra) {
  return LaunchEx(config, config == nullptr ? nullptr : Ptsz(config->hStream), function, params,
                  extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared, CUstream stream,
                                   void** params) {
  return Launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {}, shared, true},
                stream, params, nullptr);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x,
                                        unsigned int grid_y, unsigned int grid_z,
                                        unsigned int block_x, unsigned int block_y,
                                        unsigned int block_z, unsigned int shared, CUstream stream,
                                        void** params) {
  return cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                   shared, Ptsz(stream), params);
}

}  // extern "C"
