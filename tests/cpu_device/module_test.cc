// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

class ModuleTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    const CUresult result = CU(cuModuleLoadData)(&module_, Ptx());
    if (result == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "a build without the PTX executor";
    ASSERT_OK(result);
  }

  CUfunction Find(const char* name) {
    CUfunction function = nullptr;
    EXPECT_OK(CU(cuModuleGetFunction)(&function, module_, name));
    return function;
  }

  CUmodule module_ = nullptr;
};

TEST_F(ModuleTest, LaunchScalesAVector) {
  constexpr int kCount = 1000;
  std::vector<int> host(kCount);
  for (int i = 0; i < kCount; ++i) host[static_cast<size_t>(i)] = i;
  CUdeviceptr data = Allocate(kCount * 4);
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(data, host.data(), kCount * 4));
  int factor = 3, count = kCount;
  void* params[] = {&data, &factor, &count};
  ASSERT_OK(CU(cuLaunchKernel)(Find("scale"), 8, 1, 1, 128, 1, 1, 0, nullptr, params, nullptr));
  // The same by a buffer of parameters.
  struct {
    CUdeviceptr data;
    int factor, count;
  } packed{data, 2, count};
  size_t bytes = sizeof(packed);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  ASSERT_OK(CU(cuLaunchKernel)(Find("scale"), 8, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra));
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(host.data(), data, kCount * 4));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(host[static_cast<size_t>(i)], 6 * i);
}

TEST_F(ModuleTest, NamesGlobalsAndParameters) {
  CUdeviceptr table = 0;
  size_t bytes = 0;
  ASSERT_OK(CU(cuModuleGetGlobal_v2)(&table, &bytes, module_, "table"));
  EXPECT_EQ(bytes, 16u);
  int values[4] = {};
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(values, table, 16));
  EXPECT_EQ(values[3], 40);
  size_t offset = 99, size = 99;
  ASSERT_OK(CU(cuFuncGetParamInfo)(Find("scale"), 2, &offset, &size));
  EXPECT_EQ(offset, 12u);
  EXPECT_EQ(size, 4u);
  EXPECT_EQ(CU(cuFuncGetParamInfo)(Find("scale"), 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
  unsigned count = 0;
  ASSERT_OK(CU(cuModuleGetFunctionCount)(&count, module_));
  EXPECT_EQ(count, 3u);
  CUfunction none = nullptr;
  EXPECT_EQ(CU(cuModuleGetFunction)(&none, module_, "nothing"), CUDA_ERROR_NOT_FOUND);
}

TEST_F(ModuleTest, AttributesAreTheKernels) {
  int value = 0;
  ASSERT_OK(
      CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, Find("bounded")));
  EXPECT_EQ(value, 64);
  ASSERT_OK(CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, Find("scale")));
  EXPECT_EQ(value, 75);
  ASSERT_OK(CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, Find("scale")));
  EXPECT_EQ(value, 130);
}

TEST_F(ModuleTest, LaunchesOutsideTheLimitsAreRefusedAtTheCall) {
  const CUfunction bounded = Find("bounded");
  EXPECT_EQ(CU(cuLaunchKernel)(bounded, 1, 1, 1, 65, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuLaunchKernel)(bounded, 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuLaunchKernel)(bounded, 1, 65536, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuLaunchKernel)(bounded, 1, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuLaunchKernel)(bounded, 1, 1, 1, 1, 1, 1, 49 << 10, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(
      CU(cuFuncSetAttribute)(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
  EXPECT_OK(CU(cuLaunchKernel)(bounded, 1, 1, 1, 1, 1, 1, 49 << 10, nullptr, nullptr, nullptr));
  EXPECT_OK(CU(cuCtxSynchronize)());
}

TEST_F(ModuleTest, OccupancyFollowsThreadsAndSharedMemory) {
  int blocks = 0;
  ASSERT_OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, Find("scale"), 1024, 0));
  EXPECT_EQ(blocks, 2);
  ASSERT_OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, Find("scale"), 32, 0));
  EXPECT_EQ(blocks, 32);
  ASSERT_OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, Find("scale"), 32, 100 << 10));
  EXPECT_EQ(blocks, 2);
}

TEST_F(ModuleTest, LibraryKernelsLaunchInTheCurrentContext) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_OK(CU(cuLibraryLoadData)(&library, Ptx(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(CU(cuLibraryGetKernel)(&kernel, library, "poke"));
  CUdeviceptr data = Allocate(4);
  ASSERT_OK(CU(cuMemsetD32_v2)(data, 0, 1));
  void* params[] = {&data};
  ASSERT_OK(CU(cuLaunchKernel)(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr,
                               params, nullptr));
  int value = 0;
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(&value, data, 4));
  EXPECT_EQ(value, 1);
  ASSERT_OK(CU(cuLibraryUnload)(library));
  EXPECT_EQ(CU(cuLaunchKernel)(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr,
                               params, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, BrokenImagesAreNamedErrors) {
  CUmodule module = nullptr;
  char log[512] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  EXPECT_EQ(CU(cuModuleLoadDataEx)(&module, ".version 7.0\n.target sm_75\nthis is no PTX", 2,
                                   options, values),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(strlen(log), 0u);
  EXPECT_EQ(CU(cuModuleLoadData)(&module, "\x01\x02\x03\x04\x05"), CUDA_ERROR_INVALID_IMAGE);
  unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
  EXPECT_EQ(CU(cuModuleLoadData)(&module, elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

constexpr char kWrongBody[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry good() { ret; }\n.visible .entry bad() { mov.u32 %none, 1; }\n";

TEST_F(ModuleTest, AWrongBodyOfTextFailsItsLoad) {
  char log[512] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_WALL_TIME};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log)), nullptr};
  CUmodule module = nullptr;
  EXPECT_EQ(CU(cuModuleLoadDataEx)(&module, kWrongBody, 3, options, values),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(std::string(log).find("line 5"), std::string::npos) << log;
  float ms = 0;
  memcpy(&ms, &values[2], sizeof(ms));
  EXPECT_GT(ms, 0);
  CUlibrary library = nullptr;
  EXPECT_EQ(CU(cuLibraryLoadData)(&library, kWrongBody, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_ERROR_INVALID_PTX);
  CUlinkState link = nullptr;
  ASSERT_OK(CU(cuLinkCreate_v2)(0, nullptr, nullptr, &link));
  EXPECT_EQ(CU(cuLinkAddData_v2)(link, CU_JIT_INPUT_PTX, const_cast<char*>(kWrongBody),
                                 sizeof(kWrongBody), "a", 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_OK(CU(cuLinkDestroy)(link));
}

TEST_F(ModuleTest, UnloadingGivesTheGlobalsBack) {
  const size_t before = FreeBytes();
  CUmodule second = nullptr;
  ASSERT_OK(CU(cuModuleLoadData)(&second, Ptx()));
  EXPECT_LT(FreeBytes(), before);
  ASSERT_OK(CU(cuModuleUnload)(second));
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(CU(cuModuleUnload)(second), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, TheLinkerPutsInputsTogether) {
  CUlinkState link = nullptr;
  ASSERT_OK(CU(cuLinkCreate_v2)(0, nullptr, nullptr, &link));
  std::string text = Ptx();
  ASSERT_OK(CU(cuLinkAddData_v2)(link, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "a.ptx", 0,
                                 nullptr, nullptr));
  void* image = nullptr;
  size_t bytes = 0;
  ASSERT_OK(CU(cuLinkComplete)(link, &image, &bytes));
  CUmodule linked = nullptr;
  ASSERT_OK(CU(cuModuleLoadData)(&linked, image));
  std::string more =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry another() { ret; }\n";
  ASSERT_OK(CU(cuLinkAddData_v2)(link, CU_JIT_INPUT_PTX, more.data(), more.size() + 1, "b.ptx", 0,
                                 nullptr, nullptr));
  ASSERT_OK(CU(cuLinkComplete)(link, &image, &bytes));
  ASSERT_OK(CU(cuModuleLoadData)(&linked, image));
  CUfunction function = nullptr;
  EXPECT_OK(CU(cuModuleGetFunction)(&function, linked, "another"));
  EXPECT_EQ(CU(cuLinkAddData_v2)(link, CU_JIT_INPUT_OBJECT, more.data(), more.size() + 1, "c.o", 0,
                                 nullptr, nullptr),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_OK(CU(cuLinkDestroy)(link));
}

// A fatbin container of `ptx`.
std::string ContainerOf(const std::string& ptx) {
  std::string payload = ptx + std::string(8 - ptx.size() % 8, '\0');
  std::string entry(64, '\0'), container(16, '\0');
  const auto put = [](std::string* text, size_t at, uint64_t value, size_t bytes) {
    memcpy(text->data() + at, &value, bytes);
  };
  put(&entry, 0, 1, 2);  // PTX
  put(&entry, 2, 0x0101, 2);
  put(&entry, 4, 64, 4);
  put(&entry, 8, payload.size(), 8);
  put(&entry, 0x1a, 7, 2);
  put(&entry, 0x1c, 70, 4);
  put(&entry, 0x28, 0x11, 8);
  put(&container, 0, 0xBA55ED50, 4);
  put(&container, 4, 1, 2);
  put(&container, 6, 16, 2);
  put(&container, 8, entry.size() + payload.size(), 8);
  return container + entry + payload;
}

// Libraries hold thousands of kernels: what a container holds is read when it is asked for.
TEST_F(ModuleTest, AWrongBodyInAContainerFailsWhereItIsUsed) {
  const std::string image = ContainerOf(kWrongBody);
  CUmodule module = nullptr;
  ASSERT_OK(CU(cuModuleLoadData)(&module, image.data()));
  CUfunction function = nullptr;
  ASSERT_OK(CU(cuModuleGetFunction)(&function, module, "good"));
  EXPECT_OK(CU(cuFuncLoad)(function));
  ASSERT_OK(CU(cuModuleGetFunction)(&function, module, "bad"));
  EXPECT_EQ(CU(cuFuncLoad)(function), CUDA_ERROR_INVALID_PTX);
}

// An archive as nvcc's tools make them: a table, then an object whose section of images holds PTX.
std::string ArchiveOf(const std::string& ptx) {
  const auto put = [](std::string* text, size_t at, uint64_t value, size_t bytes) {
    memcpy(text->data() + at, &value, bytes);
  };
  const std::string images = ContainerOf(ptx), names("\0__nv_relfatbin\0.names\0", 23);
  // Header, images, names, then the sections' table: none, images, names.
  std::string elf(64, '\0'), table(3 * 64, '\0');
  memcpy(elf.data(),
         "\x7f"
         "ELF\2\1\1",
         7);
  put(&elf, 18, 62, 2);
  put(&elf, 40, 64 + images.size() + names.size(), 8);
  put(&elf, 58, 64, 2);
  put(&elf, 60, 3, 2);
  put(&elf, 62, 2, 2);
  const auto section = [&](size_t i, uint32_t name, uint32_t type, uint64_t at, uint64_t bytes) {
    put(&table, i * 64, name, 4);
    put(&table, i * 64 + 4, type, 4);
    put(&table, i * 64 + 24, at, 8);
    put(&table, i * 64 + 32, bytes, 8);
  };
  section(1, 1, 1, 64, images.size());
  section(2, 16, 3, 64 + images.size(), names.size());
  const std::string object = elf + images + names + table;
  const auto member = [](const std::string& name, const std::string& bytes) {
    char header[61];
    snprintf(header, sizeof(header), "%-16s%-12d%-6d%-6d%-8o%-10zu`\n", name.c_str(), 0, 0, 0,
             0644u, bytes.size());
    return header + bytes + (bytes.size() % 2 != 0 ? "\n" : "");
  };
  return "!<arch>\n" + member("/", "odd") + member("unit.o/", object);
}

TEST_F(DriverTest, ALibraryOfHostObjectsIsLinkedByItsPtx) {
  const std::string head = ".version 7.0\n.target sm_70\n.address_size 64\n";
  const std::string caller =
      head + ".extern .func helper;\n.visible .entry k() { call.uni helper; ret; }\n";
  const std::string archive = ArchiveOf(head + ".visible .func helper { ret; }\n");
  CUlinkState link = nullptr;
  ASSERT_OK(CU(cuLinkCreate_v2)(0, nullptr, nullptr, &link));
  ASSERT_OK(CU(cuLinkAddData_v2)(link, CU_JIT_INPUT_PTX, const_cast<char*>(caller.c_str()),
                                 caller.size() + 1, "k.ptx", 0, nullptr, nullptr));
  ASSERT_OK(CU(cuLinkAddData_v2)(link, CU_JIT_INPUT_LIBRARY, const_cast<char*>(archive.data()),
                                 archive.size(), "lib.a", 0, nullptr, nullptr));
  void* image = nullptr;
  size_t bytes = 0;
  ASSERT_OK(CU(cuLinkComplete)(link, &image, &bytes));
  CUmodule linked = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(CU(cuModuleLoadData)(&linked, image));
  ASSERT_OK(CU(cuModuleGetFunction)(&function, linked, "k"));
  ASSERT_OK(CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_OK(CU(cuCtxSynchronize)());
  // Cut anywhere before the byte that pads its last member, it is refused.
  for (size_t cut = 1; cut + 1 < archive.size(); cut += 3) {
    const std::string part = archive.substr(0, cut);
    EXPECT_EQ(CU(cuLinkAddData_v2)(link, CU_JIT_INPUT_LIBRARY, const_cast<char*>(part.data()),
                                   part.size(), "cut.a", 0, nullptr, nullptr),
              CUDA_ERROR_NO_BINARY_FOR_GPU)
        << cut;
  }
  EXPECT_OK(CU(cuLinkDestroy)(link));
}

// Each block writes its neighbour's number, which it reads from the neighbour's shared memory.
TEST_F(DriverTest, BlocksOfAClusterShareTheirMemory) {
  const char* ptx = R"(.version 8.6
.target sm_90
.address_size 64
.visible .entry neighbours(.param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<4>; .shared .align 4 .u32 number;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; st.shared.u32 [number], %r1;
  barrier.cluster.arrive; barrier.cluster.wait;
  mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; mov.u32 %r3, number;
  mapa.shared::cluster.u32 %r4, %r3, %r2; ld.shared::cluster.u32 %r5, [%r4];
  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r5;
  barrier.cluster.arrive; barrier.cluster.wait; ret;
}
)";
  CUmodule module = nullptr;
  const CUresult loaded = CU(cuModuleLoadData)(&module, ptx);
  if (loaded == CUDA_ERROR_NOT_SUPPORTED) GTEST_SKIP() << "a build without the PTX executor";
  ASSERT_OK(loaded);
  CUfunction function = nullptr;
  ASSERT_OK(CU(cuModuleGetFunction)(&function, module, "neighbours"));
  CUdeviceptr out = Allocate(32);
  void* params[] = {&out};
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = 4;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config = {};
  config.gridDimX = 8;
  config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  ASSERT_OK(CU(cuLaunchKernelEx)(&config, function, params, nullptr));
  uint32_t numbers[8] = {};
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(numbers, out, sizeof(numbers)));
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(numbers[i], i ^ 1) << i;
  config.gridDimX = 6;
  EXPECT_EQ(CU(cuLaunchKernelEx)(&config, function, params, nullptr),
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

}  // namespace
}  // namespace farcall::cpu_device
