// SPDX-License-Identifier: Apache-2.0
// The dry device's libcuda.so.1: what it reads from machine code, what it keeps and what it does
// not do.
#include <fstream>
#include <iterator>
#include <string>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

std::string Read(const std::string& name) {
  std::ifstream file(std::string(FARCALL_DRY_IMAGES) + "/" + name, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

class DryDeviceTest : public DriverTest {
 protected:
  CUmodule Load(const std::string& name) {
    CUmodule module = nullptr;
    EXPECT_OK(CU(cuModuleLoadData)(&module, Read(name).c_str())) << name;
    return module;
  }
  CUfunction Function(CUmodule module, const std::string& name) {
    CUfunction function = nullptr;
    EXPECT_OK(CU(cuModuleGetFunction)(&function, module, name.c_str())) << name;
    return function;
  }
  int Attribute(CUfunction function, CUfunction_attribute attribute) {
    int value = -1;
    EXPECT_OK(CU(cuFuncGetAttribute)(&value, attribute, function));
    return value;
  }
  CUdeviceptr Global(CUmodule module, const char* name, size_t* bytes) {
    CUdeviceptr address = 0;
    EXPECT_OK(CU(cuModuleGetGlobal_v2)(&address, bytes, module, name)) << name;
    return address;
  }
};

const char* const kKernels[] = {"Scale",     "Bounded", "Shared",   "TakesMuch",
                                "UsesStack", "Nothing", "Clustered"};

TEST_F(DryDeviceTest, ItsNameSaysWhatItIs) {
  char name[256] = {};
  ASSERT_OK(CU(cuDeviceGetName)(name, sizeof(name), 0));
  EXPECT_STREQ(name, "Farcall dry device (H100 80GB profile), computes nothing");
  int major = 0, multiprocessors = 0, shared = 0;
  ASSERT_OK(CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  ASSERT_OK(
      CU(cuDeviceGetAttribute)(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  ASSERT_OK(
      CU(cuDeviceGetAttribute)(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
  EXPECT_EQ(major, 9);
  EXPECT_EQ(multiprocessors, 132);
  EXPECT_EQ(shared, 227 << 10);
}

TEST_F(DryDeviceTest, ACubinHasTheParametersOfItsPtx) {
  CUmodule cubin = Load("kernels.sm_90.cubin"), ptx = Load("kernels.compute_90.ptx");
  for (const char* name : kKernels) {
    CUfunction a = Function(cubin, name), b = Function(ptx, name);
    for (size_t i = 0;; ++i) {
      size_t offset_a = 0, size_a = 0, offset_b = 0, size_b = 0;
      const CUresult got = CU(cuFuncGetParamInfo)(a, i, &offset_a, &size_a);
      ASSERT_EQ(got, CU(cuFuncGetParamInfo)(b, i, &offset_b, &size_b)) << name << " " << i;
      if (got != CUDA_SUCCESS) break;
      EXPECT_EQ(offset_a, offset_b) << name << " " << i;
      EXPECT_EQ(size_a, size_b) << name << " " << i;
    }
    for (CUfunction_attribute attribute :
         {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
          CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, CU_FUNC_ATTRIBUTE_PTX_VERSION,
          CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH})
      EXPECT_EQ(Attribute(a, attribute), Attribute(b, attribute)) << name << " " << attribute;
  }
}

TEST_F(DryDeviceTest, ACubinTellsItsAttributes) {
  CUmodule module = Load("kernels.sm_90.cubin");
  unsigned count = 0;
  ASSERT_OK(CU(cuModuleGetFunctionCount)(&count, module));
  EXPECT_EQ(count, std::size(kKernels));
  CUfunction bounded = Function(module, "Bounded"), shared = Function(module, "Shared");
  EXPECT_EQ(Attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
  EXPECT_EQ(Attribute(shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 256);
  EXPECT_EQ(Attribute(shared, CU_FUNC_ATTRIBUTE_BINARY_VERSION), 90);
  EXPECT_GT(Attribute(shared, CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
  EXPECT_EQ(Attribute(Function(module, "UsesStack"), CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 400);
  EXPECT_EQ(Attribute(Function(module, "Clustered"), CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), 2);
}

TEST_F(DryDeviceTest, VariablesHaveTheirInitialValues) {
  for (const char* image : {"kernels.sm_90.cubin", "kernels.compute_90.ptx"}) {
    CUmodule module = Load(image);
    size_t bytes = 0;
    int numbers[3] = {};
    ASSERT_OK(CU(cuMemcpyDtoH_v2)(numbers, Global(module, "constants", &bytes), sizeof(numbers)));
    EXPECT_EQ(bytes, sizeof(numbers));
    EXPECT_EQ(numbers[1], 2);
    int counter = 0;
    ASSERT_OK(CU(cuMemcpyDtoH_v2)(&counter, Global(module, "counter", &bytes), sizeof(counter)));
    EXPECT_EQ(counter, 5);
    CUdeviceptr table = Global(module, "table", &bytes), pointer = 0;
    EXPECT_EQ(bytes, 8000u);
    ASSERT_OK(CU(cuMemcpyDtoH_v2)(&pointer, Global(module, "into_table", &bytes), sizeof(pointer)));
    EXPECT_EQ(pointer, table + 80) << image;
  }
}

TEST_F(DryDeviceTest, FatbinsOfMachineCodeAloneAreUnpacked) {
  for (const char* image : {"zstd.fatbin", "lz4.fatbin", "plain.fatbin"}) {
    CUmodule module = Load(image);
    EXPECT_EQ(Attribute(Function(module, "Bounded"), CU_FUNC_ATTRIBUTE_BINARY_VERSION), 90)
        << image;
    EXPECT_OK(CU(cuModuleUnload)(module));
  }
}

TEST_F(DryDeviceTest, MachineCodeOfAnotherArchitectureIsRefused) {
  CUmodule module = nullptr;
  EXPECT_EQ(CU(cuModuleLoadData)(&module, Read("kernels.sm_80.cubin").c_str()),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(CU(cuModuleLoadData)(&module, Read("sm_80.fatbin").c_str()),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_F(DryDeviceTest, ABrokenCubinIsAnError) {
  constexpr size_t kMachine = 18, kSectionNames = 62;
  for (size_t at : {kMachine, kSectionNames}) {
    std::string broken = Read("kernels.sm_90.cubin");
    broken[at] = broken[at + 1] = 0x7f;
    CUmodule module = nullptr;
    EXPECT_EQ(CU(cuModuleLoadData)(&module, broken.c_str()), CUDA_ERROR_INVALID_IMAGE) << at;
  }
}

TEST_F(DryDeviceTest, ALaunchIsCheckedAndNotExecuted) {
  CUfunction scale = Function(Load("kernels.sm_90.cubin"), "Scale");
  CUdeviceptr data = Allocate(4096);
  ASSERT_OK(CU(cuMemsetD32_v2)(data, 0x3f800000, 1024));
  float factor = 2;
  int count = 1024;
  void* params[] = {&data, &factor, &count};
  EXPECT_OK(CU(cuLaunchKernel)(scale, 4, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_OK(CU(cuCtxSynchronize)());
  float back = 0;
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(&back, data, sizeof(back)));
  EXPECT_EQ(back, 1.0f);
  EXPECT_EQ(CU(cuLaunchKernel)(scale, 4, 1, 1, 2048, 1, 1, 0, nullptr, params, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuLaunchKernel)(scale, 4, 1, 1, 256, 1, 1, 100 << 10, nullptr, params, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(
      CU(cuFuncSetAttribute)(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10));
  EXPECT_OK(CU(cuLaunchKernel)(scale, 4, 1, 1, 256, 1, 1, 227 << 10, nullptr, params, nullptr));
}

TEST_F(DryDeviceTest, ClustersHoldToTheirShape) {
  CUfunction clustered = Function(Load("kernels.sm_90.cubin"), "Clustered");
  CUdeviceptr data = Allocate(4096);
  void* params[] = {&data};
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = 2;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config = {};
  config.gridDimX = 4;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 32;
  config.attrs = &attribute;
  config.numAttrs = 1;
  EXPECT_OK(CU(cuLaunchKernelEx)(&config, clustered, params, nullptr));
  config.gridDimX = 5;
  EXPECT_EQ(CU(cuLaunchKernelEx)(&config, clustered, params, nullptr),
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
  // The shape it was compiled with holds where the launch gives none.
  EXPECT_OK(CU(cuLaunchKernel)(clustered, 4, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
}

TEST_F(DryDeviceTest, EightyGigabytesCostNothing) {
  size_t free_bytes = 0, total = 0;
  ASSERT_OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
  ASSERT_GT(total, 79ull << 30);
  const uint64_t before = ResidentBytes();
  CUdeviceptr big = Allocate(free_bytes);
  ASSERT_NE(big, 0u);
  CUdeviceptr more = 0;
  EXPECT_EQ(CU(cuMemAlloc_v2)(&more, 4 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_OK(CU(cuMemsetD8_v2)(big, 0, free_bytes));
  const uint64_t number = 42, at = free_bytes / 2 & ~7ull;
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(big + at, &number, sizeof(number)));
  uint64_t back = 0;
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(&back, big + at, sizeof(back)));
  EXPECT_EQ(back, number);
  // Zeros in the place of what was written give the memory back, and read as zeros.
  ASSERT_OK(CU(cuMemsetD32_v2)(big + 4, 0, free_bytes / 4 - 1));
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(&back, big + at, sizeof(back)));
  EXPECT_EQ(back, 0u);
  EXPECT_LT(ResidentBytes(), before + (64 << 20));
}

TEST_F(DryDeviceTest, MappedMemoryIsSparseToo) {
  constexpr size_t kBytes = 8ull << 30;
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr address = 0;
  ASSERT_OK(CU(cuMemCreate)(&memory, kBytes, &prop, 0));
  ASSERT_OK(CU(cuMemAddressReserve)(&address, kBytes, 0, 0, 0));
  ASSERT_OK(CU(cuMemMap)(address, kBytes, 0, memory, 0));
  CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_OK(CU(cuMemSetAccess)(address, kBytes, &access, 1));
  const uint64_t before = ResidentBytes();
  ASSERT_OK(CU(cuMemsetD8_v2)(address, 7, 1 << 20));
  ASSERT_OK(CU(cuMemsetD8_v2)(address + 1, 0, kBytes - 1));
  uint8_t back[2] = {};
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(back, address, sizeof(back)));
  EXPECT_EQ(back[0], 7);
  EXPECT_EQ(back[1], 0);
  EXPECT_LT(ResidentBytes(), before + (64 << 20));
  ASSERT_OK(CU(cuMemUnmap)(address, kBytes));
  ASSERT_OK(CU(cuMemAddressFree)(address, kBytes));
  ASSERT_OK(CU(cuMemRelease)(memory));
}

TEST_F(DryDeviceTest, KernelsAreCapturedIntoGraphs) {
  CUfunction nothing = Function(Load("zstd.fatbin"), "Nothing");
  CUstream stream = nullptr;
  ASSERT_OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < 3; ++i)
    ASSERT_OK(CU(cuLaunchKernel)(nothing, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr));
  CUgraph graph = nullptr;
  ASSERT_OK(CU(cuStreamEndCapture)(stream, &graph));
  size_t nodes = 0;
  ASSERT_OK(CU(cuGraphGetNodes)(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 3u);
  CUgraphExec exec = nullptr;
  ASSERT_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  ASSERT_OK(CU(cuGraphLaunch)(exec, stream));
  ASSERT_OK(CU(cuStreamSynchronize)(stream));
  ASSERT_OK(CU(cuGraphExecDestroy)(exec));
  ASSERT_OK(CU(cuGraphDestroy)(graph));
  ASSERT_OK(CU(cuStreamDestroy_v2)(stream));
}

TEST_F(DryDeviceTest, TensorMapsAreCheckedAsDocumented) {
  CUdeviceptr data = Allocate(1 << 20);
  CUtensorMap map;
  cuuint64_t dims[2] = {256, 256}, strides[1] = {512};
  cuuint32_t box[2] = {64, 64}, steps[2] = {1, 1};
  const auto encode = [&](CUdeviceptr address, CUtensorMapSwizzle swizzle) {
    return CU(cuTensorMapEncodeTiled)(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, reinterpret_cast<void*>(address), dims, strides,
        box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_OK(encode(data, CU_TENSOR_MAP_SWIZZLE_128B));
  EXPECT_EQ(encode(data, CU_TENSOR_MAP_SWIZZLE_64B), CUDA_ERROR_INVALID_VALUE);  // 128 bytes a row
  EXPECT_EQ(encode(data + 8, CU_TENSOR_MAP_SWIZZLE_128B), CUDA_ERROR_INVALID_VALUE);
  strides[0] = 500;
  EXPECT_EQ(encode(data, CU_TENSOR_MAP_SWIZZLE_128B), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuTensorMapReplaceAddress)(&map, reinterpret_cast<void*>(data + 4096)));
}

}  // namespace
}  // namespace farcall::cpu_device
