// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk.tensor against plain host loops: 1 to 5 dimensions, element sizes, swizzles, steps,
// what lies outside the tensor, stores, multicast, and maps that are none.
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

constexpr uint32_t kSharedBytes = 8192;

// k(map, data): thread 0 copies the box at `coordinates` to shared memory (or shared memory, which
// holds `data`, to the box); all of shared memory then goes to `data`.
std::string Kernel(const std::vector<int>& coordinates, bool store, bool multicast = false,
                   const std::string& reduce = "") {
  std::string at, rank = std::to_string(coordinates.size()) + "d";
  for (int c : coordinates) at += (at.empty() ? "" : ", ") + std::to_string(c);
  std::string text =
      ".version 8.6\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 data)" +
      std::string(multicast ? " .reqnctapercluster 2, 1, 1" : "") +
      "\n{\n  .reg .pred %p<4>;\n  .reg .b16 %h<2>;\n  .reg .b32 %r<16>;\n  .reg .b64 %rd<8>;\n"
      "  .shared .align 1024 .b8 tile[8192];\n  .shared .align 8 .b64 bar;\n"
      "  mov.b64 %rd1, map;\n  cvta.param.u64 %rd1, %rd1;\n  ld.param.u64 %rd2, [data];\n"
      "  mov.u32 %r8, %cluster_ctarank;\n  mul.wide.u32 %rd3, %r8, 8192;\n"
      "  add.u64 %rd2, %rd2, %rd3;\n  mov.u32 %r1, tile;\n  mov.u32 %r2, bar;\n  mov.u32 %r3, 0;\n"
      "FILL:\n  cvt.u64.u32 %rd4, %r3;\n  add.u64 %rd5, %rd2, %rd4;\n"
      "  ld.global.u32 %r4, [%rd5];\n  add.u32 %r5, %r1, %r3;\n  st.shared.u32 [%r5], %r4;\n"
      "  add.u32 %r3, %r3, 4;\n  setp.lt.u32 %p1, %r3, 8192;\n  @%p1 bra FILL;\n";
  const std::string box = "[%rd1, {" + at + "}]";
  if (store) {
    text +=
        "  fence.proxy.async.shared::cta;\n  cp." +
        (reduce.empty() ? "async.bulk.tensor." + rank + ".global.shared::cta"
                        : "reduce.async.bulk.tensor." + rank + ".global.shared::cta." + reduce) +
        ".tile.bulk_group " + box +
        ", [%r1];\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\n";
  } else {
    text += "  mbarrier.init.shared.b64 [%r2], 1;\n";
    if (multicast) text += "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n";
    // The bytes of the box, which the kernel finds out by the data's first word.
    text += "  ld.global.u32 %r6, [%rd2];\n  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], %r6;\n";
    if (multicast) text += "  setp.ne.u32 %p3, %r8, 0;\n  @%p3 bra WAIT;\n  mov.u16 %h1, 3;\n";
    text += "  cp.async.bulk.tensor." + rank +
            ".shared::cluster.global.tile.mbarrier::complete_tx::bytes" +
            std::string(multicast ? ".multicast::cluster" : "") + " [%r1], " + box + ", [%r2]" +
            (multicast ? ", %h1" : "") +
            ";\nWAIT:\n  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;\n  @!%p2 bra WAIT;\n";
  }
  return text +
         "  mov.u32 %r3, 0;\nDRAIN:\n  add.u32 %r5, %r1, %r3;\n  ld.shared.u32 %r4, [%r5];\n"
         "  cvt.u64.u32 %rd4, %r3;\n  add.u64 %rd5, %rd2, %rd4;\n  st.global.u32 [%rd5], %r4;\n"
         "  add.u32 %r3, %r3, 4;\n  setp.lt.u32 %p1, %r3, 8192;\n  @%p1 bra DRAIN;\n" +
         (multicast ? "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n" : "") + "  ret;\n}\n";
}

struct Tensor {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  uint32_t element = 4;
  std::vector<cuuint64_t> dims;
  std::vector<cuuint32_t> box;
  std::vector<cuuint32_t> steps;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;

  // Rows padded to 16 bytes and 16 more, so that strides are not what dims would make them.
  std::vector<cuuint64_t> Strides() const {
    std::vector<cuuint64_t> strides;
    cuuint64_t bytes = (dims[0] * element + 15) / 16 * 16 + 16;
    for (size_t i = 1; i < dims.size(); ++i) {
      strides.push_back(bytes);
      bytes *= dims[i];
    }
    strides.push_back(bytes);  // of the whole
    return strides;
  }
  uint64_t Bytes() const { return Strides().back(); }
};

// Calls `each(place in the tensor or -1, place in shared memory)` for every element of the box.
void Walk(const Tensor& t, const std::vector<int>& at,
          const std::function<void(int64_t, uint64_t)>& each) {
  const std::vector<cuuint64_t> strides = t.Strides();
  uint64_t rows = 0;  // elements so far
  std::vector<uint32_t> index(t.dims.size(), 0);
  while (true) {
    int64_t place = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      const int64_t c = at[i] + static_cast<int64_t>(index[i]);
      if (c < 0 || c >= static_cast<int64_t>(t.dims[i])) place = INT64_MIN;
      if (place >= 0) place += c * static_cast<int64_t>(i == 0 ? t.element : strides[i - 1]);
    }
    const uint64_t linear = rows++ * t.element;
    const uint64_t line = linear / 128, piece = linear % 128 / 16;
    const uint64_t pieces[] = {piece, piece ^ (line % 2), piece ^ (line % 4), piece ^ (line % 8)};
    each(place < 0 ? -1 : place, line * 128 + pieces[t.swizzle] * 16 + linear % 16);
    size_t i = 0;
    for (; i < index.size(); ++i) {
      index[i] += i == 0 ? 1 : t.steps[i];
      if (index[i] < t.box[i]) break;
      index[i] = 0;
    }
    if (i == index.size()) return;
  }
}

class TensorTest : public DriverTest {
 public:
  using DriverTest::Allocate;
  CUresult Encode(const Tensor& t, CUdeviceptr address, CUtensorMap* map) {
    const std::vector<cuuint64_t> strides = t.Strides();
    return CU(cuTensorMapEncodeTiled)(
        map, t.type, static_cast<cuuint32_t>(t.dims.size()), reinterpret_cast<void*>(address),
        t.dims.data(), strides.data(), t.box.data(), t.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
        t.swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, t.fill);
  }

  CUresult Launch(const std::string& ptx, const CUtensorMap& map, CUdeviceptr data,
                  unsigned blocks = 1) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_OK(CU(cuModuleLoadData)(&module, ptx.c_str()));
    EXPECT_OK(CU(cuModuleGetFunction)(&function, module, "k"));
    void* params[] = {const_cast<CUtensorMap*>(&map), &data};
    EXPECT_OK(CU(cuLaunchKernel)(function, blocks, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    return CU(cuCtxSynchronize)();
  }

  // Both ways at `at`.
  void Check(const Tensor& t, const std::vector<int>& at) {
    std::vector<uint8_t> tensor(t.Bytes());
    for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<uint8_t>(i * 7 + i / 251);
    const CUdeviceptr address = Allocate(tensor.size()), data = Allocate(kSharedBytes);
    ASSERT_OK(CU(cuMemcpyHtoD_v2)(address, tensor.data(), tensor.size()));
    CUtensorMap map;
    ASSERT_OK(Encode(t, address, &map));

    std::vector<uint8_t> shared(kSharedBytes, 0x5a), got(kSharedBytes);
    uint32_t bytes = 0;
    Walk(t, at, [&](int64_t, uint64_t) { bytes += t.element; });
    memcpy(shared.data(), &bytes, sizeof(bytes));
    ASSERT_OK(CU(cuMemcpyHtoD_v2)(data, shared.data(), shared.size()));
    ASSERT_OK(Launch(Kernel(at, false), map, data));
    ASSERT_OK(CU(cuMemcpyDtoH_v2)(got.data(), data, got.size()));
    Walk(t, at, [&](int64_t from, uint64_t to) {
      if (from < 0 && t.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) {
        float value = 0;
        memcpy(&value, &got[to], sizeof(value));
        EXPECT_TRUE(std::isnan(value)) << "at " << to;
        memset(&shared[to], 0, t.element), memset(&got[to], 0, t.element);
      } else if (from < 0) {
        memset(&shared[to], 0, t.element);
      } else {
        memcpy(&shared[to], &tensor[static_cast<size_t>(from)], t.element);
      }
    });
    EXPECT_EQ(got, shared);

    for (size_t i = 0; i < shared.size(); ++i) shared[i] = static_cast<uint8_t>(i * 13 + i / 256);
    ASSERT_OK(CU(cuMemcpyHtoD_v2)(data, shared.data(), shared.size()));
    ASSERT_OK(Launch(Kernel(at, true), map, data));
    Walk(t, at, [&](int64_t to, uint64_t from) {
      if (to >= 0) memcpy(&tensor[static_cast<size_t>(to)], &shared[from], t.element);
    });
    std::vector<uint8_t> after(tensor.size());
    ASSERT_OK(CU(cuMemcpyDtoH_v2)(after.data(), address, after.size()));
    EXPECT_EQ(after, tensor);
  }
};

TEST_F(TensorTest, TheDeviceSaysThatItHasThem) {
  int has = 0;
  ASSERT_OK(CU(cuDeviceGetAttribute)(&has, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
  EXPECT_EQ(has, 1);
}

TEST_F(TensorTest, BoxesOfOneToFiveDimensions) {
  const std::vector<cuuint64_t> dims = {20, 6, 5, 4, 3};
  const std::vector<cuuint32_t> box = {8, 3, 2, 2, 2};
  for (size_t rank = 1; rank <= dims.size(); ++rank) {
    SCOPED_TRACE(rank);
    Tensor t;
    t.dims.assign(dims.begin(), dims.begin() + static_cast<int>(rank));
    t.box.assign(box.begin(), box.begin() + static_cast<int>(rank));
    t.steps.assign(rank, 1);
    Check(t, std::vector<int>(rank, 1));
    // Partly outside, on both sides.
    Check(t, std::vector<int>(rank, -1));
    std::vector<int> past;
    for (size_t i = 0; i < rank; ++i) past.push_back(static_cast<int>(dims[i]) - 1);
    Check(t, past);
    Check(t, std::vector<int>(rank, 1000));
  }
}

TEST_F(TensorTest, ElementsOfEverySize) {
  struct Kind {
    CUtensorMapDataType type;
    uint32_t bytes;
  };
  for (const Kind& kind :
       {Kind{CU_TENSOR_MAP_DATA_TYPE_UINT8, 1}, Kind{CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2},
        Kind{CU_TENSOR_MAP_DATA_TYPE_INT32, 4}, Kind{CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8}}) {
    SCOPED_TRACE(kind.bytes);
    Check({kind.type, kind.bytes, {50, 9}, {16, 4}, {1, 1}}, {3, 2});
    Check({kind.type, kind.bytes, {50, 9}, {16, 4}, {1, 1}}, {45, 7});
  }
}

TEST_F(TensorTest, Swizzles) {
  for (const auto& [swizzle, row] :
       {std::pair{CU_TENSOR_MAP_SWIZZLE_32B, 8u}, std::pair{CU_TENSOR_MAP_SWIZZLE_64B, 16u},
        std::pair{CU_TENSOR_MAP_SWIZZLE_128B, 32u}}) {
    SCOPED_TRACE(swizzle);
    Tensor t{CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, {64, 40}, {row, 24}, {1, 1}, swizzle};
    Check(t, {8, 3});
    Check(t, {48, 30});
  }
}

TEST_F(TensorTest, StepsAndNans) {
  Tensor t{CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, {16, 20, 4}, {8, 7, 3}, {1, 3, 2}};
  Check(t, {4, 2, 0});
  t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  Check(t, {12, 17, 2});
}

TEST_F(TensorTest, MulticastFillsEveryBlockOfTheMask) {
  Tensor t{CU_TENSOR_MAP_DATA_TYPE_INT32, 4, {32, 8}, {16, 4}, {1, 1}};
  std::vector<uint32_t> tensor(t.Bytes() / 4);
  std::iota(tensor.begin(), tensor.end(), 1000u);
  const CUdeviceptr address = Allocate(t.Bytes()), data = Allocate(2 * kSharedBytes);
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(address, tensor.data(), t.Bytes()));
  std::vector<uint32_t> got(2 * kSharedBytes / 4, 16 * 4 * 4);
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(data, got.data(), 2 * kSharedBytes));
  CUtensorMap map;
  ASSERT_OK(Encode(t, address, &map));
  ASSERT_OK(Launch(Kernel({8, 2}, false, true), map, data, 2));
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(got.data(), data, 2 * kSharedBytes));
  for (uint32_t block = 0; block < 2; ++block) {
    Walk(t, {8, 2}, [&](int64_t from, uint64_t to) {
      EXPECT_EQ(got[block * kSharedBytes / 4 + to / 4], tensor[static_cast<size_t>(from) / 4]);
    });
  }
}

uint16_t HalfOf(int value) {
  int exponent = 0;
  if (value == 0) return 0;
  while (value >> (exponent + 1) != 0) ++exponent;
  return static_cast<uint16_t>((exponent + 15) << 10 | ((value << (10 - exponent)) & 1023));
}
uint16_t BfloatOf(int value) {
  const auto number = static_cast<float>(value);
  uint32_t bits;
  memcpy(&bits, &number, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

// Combines the box at (5, 2) of a tensor with shared memory, twice, where `make` gives an element
// of a small number and `both` the number that comes of two.
template <typename T>
void CheckReduction(TensorTest* test, CUtensorMapDataType type, const std::string& reduce,
                    const std::function<T(int)>& make, const std::function<int(int, int)>& both) {
  SCOPED_TRACE(reduce + " " + std::to_string(type));
  const Tensor t{type, sizeof(T), {40, 9}, {16, 4}, {1, 1}};
  const std::vector<int> at = {30, 2};
  auto number = [](uint64_t i, int salt) { return static_cast<int>((i * 7 + salt) % 11); };
  std::vector<T> tensor(t.Bytes() / sizeof(T)), shared(kSharedBytes / sizeof(T));
  for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = make(number(i, 3));
  for (size_t i = 0; i < shared.size(); ++i) shared[i] = make(number(i, 5));
  const CUdeviceptr address = test->Allocate(t.Bytes()), data = test->Allocate(kSharedBytes);
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(address, tensor.data(), t.Bytes()));
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(data, shared.data(), kSharedBytes));
  CUtensorMap map;
  ASSERT_OK(test->Encode(t, address, &map));
  for (int i = 0; i < 2; ++i) ASSERT_OK(test->Launch(Kernel(at, true, false, reduce), map, data));
  Walk(t, at, [&](int64_t to, uint64_t from) {
    if (to < 0) return;
    const int with = number(from / sizeof(T), 5),
              place = number(static_cast<uint64_t>(to) / sizeof(T), 3);
    tensor[static_cast<size_t>(to) / sizeof(T)] = make(both(both(place, with), with));
  });
  std::vector<T> after(tensor.size());
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(after.data(), address, t.Bytes()));
  EXPECT_EQ(after, tensor);
}

TEST_F(TensorTest, ReductionsCombineEachElement) {
  using Both = std::function<int(int, int)>;
  const std::vector<std::pair<std::string, Both>> all = {
      {"add", [](int a, int b) { return a + b; }},
      {"min", [](int a, int b) { return std::min(a, b); }},
      {"max", [](int a, int b) { return std::max(a, b); }},
      {"and", [](int a, int b) { return a & b; }},
      {"or", [](int a, int b) { return a | b; }},
      {"xor", [](int a, int b) { return a ^ b; }},
      {"inc", [](int a, int b) { return a >= b ? 0 : a + 1; }},
      {"dec", [](int a, int b) { return a == 0 || a > b ? b : a - 1; }}};
  for (const auto& [name, both] : all) {
    CheckReduction<uint32_t>(
        this, CU_TENSOR_MAP_DATA_TYPE_UINT32, name, [](int v) { return v; }, both);
    if (name == "inc" || name == "dec") continue;
    CheckReduction<int32_t>(
        this, CU_TENSOR_MAP_DATA_TYPE_INT32, name, [](int v) { return v - 5; },
        name == "add" ? Both([](int a, int b) { return a + b - 5; })
        : name == "min" || name == "max"
            ? both
            : Both([&, f = both](int a, int b) { return f(a - 5, b - 5) + 5; }));
    CheckReduction<uint64_t>(
        this, CU_TENSOR_MAP_DATA_TYPE_UINT64, name, [](int v) { return v; }, both);
    if (name == "and" || name == "or" || name == "xor") continue;
    CheckReduction<uint16_t>(this, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, name, HalfOf, both);
    CheckReduction<uint16_t>(this, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, name, BfloatOf, both);
  }
  const Both sum = [](int a, int b) { return a + b; };
  CheckReduction<float>(
      this, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, "add", [](int v) { return 0.5f * v; }, sum);
  CheckReduction<double>(
      this, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, "add", [](int v) { return 0.5 * v; }, sum);
}

// A map changed field by field in shared memory, and copied out, is the one that the host makes,
// whatever it was before: zeros too.
class ReplacedTensorMap : public TensorTest {
 public:
  void Check(const CUtensorMap& before);
};
TEST_F(ReplacedTensorMap, IsThatOfTheHost) {
  const Tensor from{CU_TENSOR_MAP_DATA_TYPE_INT32, 4, {32, 8}, {16, 4}, {1, 1}};
  CUtensorMap map;
  ASSERT_OK(Encode(from, Allocate(from.Bytes()), &map));
  Check(map);
}
TEST_F(ReplacedTensorMap, MayBeMadeOfZeros) {
  CUtensorMap zeros = {};
  Check(zeros);
}

void ReplacedTensorMap::Check(const CUtensorMap& before) {
  const Tensor to{CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
                  8,
                  {64, 10, 3},
                  {2, 5, 1},
                  {1, 3, 2},
                  CU_TENSOR_MAP_SWIZZLE_32B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA};
  const CUdeviceptr place = Allocate(to.Bytes()), out = Allocate(128);
  CUtensorMap want;
  ASSERT_OK(Encode(to, place, &want));
  std::string text =
      ".version 8.6\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)\n{\n"
      "  .reg .pred %p<2>;\n  .reg .b32 %r<4>;\n  .reg .b64 %rd<8>;\n  .shared .align 128 .b8 "
      "own[128];\n"
      "  mov.b64 %rd1, map;\n  cvta.param.u64 %rd1, %rd1;\n  ld.param.u64 %rd2, [out];\n"
      "  mov.u32 %r1, own;\n  mov.u32 %r2, 0;\n"
      "COPY:\n  cvt.u64.u32 %rd3, %r2;\n  add.u64 %rd4, %rd1, %rd3;\n  ld.u32 %r3, [%rd4];\n"
      "  add.u32 %r3, %r3, 0;\n  add.u32 %r0, %r1, %r2;\n  st.shared.u32 [%r0], %r3;\n"
      "  add.u32 %r2, %r2, 4;\n  setp.lt.u32 %p1, %r2, 128;\n  @%p1 bra COPY;\n";
  auto replace = [&](const std::string& field, const std::string& type, const std::string& rest) {
    text += "  tensormap.replace.tile." + field + ".shared::cta.b1024." + type + " [%r1], " + rest +
            ";\n";
  };
  text += "  mov.u64 %rd5, " + std::to_string(place) + ";\n";
  replace("global_address", "b64", "%rd5");
  replace("rank", "b32", "2");
  const std::vector<cuuint64_t> strides = to.Strides();
  for (int i = 0; i < 3; ++i) {
    const std::string at = std::to_string(i) + ", ";
    replace("box_dim", "b32", at + std::to_string(to.box[i]));
    replace("global_dim", "b32", at + std::to_string(to.dims[i]));
    replace("element_stride", "b32", at + std::to_string(to.steps[i]));
    if (i < 2) replace("global_stride", "b64", at + std::to_string(strides[i]));
  }
  replace("elemtype", "b32", "9");  // .f64
  replace("interleave_layout", "b32", "0");
  replace("swizzle_mode", "b32", "1");
  replace("fill_mode", "b32", "1");
  text +=
      "  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%rd2], "
      "[%r1], 128;\n  ret;\n}\n";
  ASSERT_OK(Launch(text, before, out));
  CUtensorMap got;
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(&got, out, sizeof(got)));
  EXPECT_EQ(memcmp(&got, &want, sizeof(got)), 0);
}

// Each breaks its context.
TEST_F(TensorTest, AFieldThatNoMapCanHaveEndsTheKernel) {
  const Tensor t{CU_TENSOR_MAP_DATA_TYPE_INT32, 4, {32, 8}, {16, 4}, {1, 1}};
  CUtensorMap map;
  ASSERT_OK(Encode(t, Allocate(t.Bytes()), &map));
  const CUdeviceptr there = Allocate(128);
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(there, &map, sizeof(map)));
  EXPECT_EQ(Launch(".version 8.6\n.target sm_90a\n.address_size 64\n"
                   ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)\n{\n"
                   "  .reg .b64 %rd<2>;\n  ld.param.u64 %rd1, [out];\n"
                   "  tensormap.replace.tile.box_dim.global.b1024.b32 [%rd1], 5, 8;\n  ret;\n}\n",
                   map, there),
            CUDA_ERROR_LAUNCH_FAILED);
}
TEST_F(TensorTest, AMapOfZerosWithoutABoxEndsTheKernel) {
  const CUdeviceptr there = Allocate(128);
  CUtensorMap zeros = {};
  ASSERT_OK(CU(cuMemcpyHtoD_v2)(there, &zeros, sizeof(zeros)));
  EXPECT_EQ(Launch(".version 8.6\n.target sm_90a\n.address_size 64\n"
                   ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)\n{\n"
                   "  .reg .b32 %r<2>;\n  .reg .b64 %rd<2>;\n  .shared .align 128 .b8 s[128];\n"
                   "  ld.param.u64 %rd1, [out];\n  mov.u32 %r1, s;\n"
                   "  tensormap.replace.tile.global_dim.global.b1024.b32 [%rd1], 0, 8;\n"
                   "  cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd1, {0}], "
                   "[%r1];\n  ret;\n}\n",
                   zeros, there),
            CUDA_ERROR_LAUNCH_FAILED);
}
TEST_F(TensorTest, AReductionThatTheTypeHasNotEndsTheKernel) {
  const Tensor t{CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, {32, 8}, {16, 4}, {1, 1}};
  CUtensorMap map;
  ASSERT_OK(Encode(t, Allocate(t.Bytes()), &map));
  EXPECT_EQ(Launch(Kernel({0, 0}, true, false, "xor"), map, Allocate(kSharedBytes)),
            CUDA_ERROR_LAUNCH_FAILED);
}
TEST_F(TensorTest, AMapThatIsNoneEndsTheKernel) {
  CUtensorMap map;
  memset(&map, 0x11, sizeof(map));
  EXPECT_EQ(Launch(Kernel({0, 0}, true), map, Allocate(kSharedBytes)), CUDA_ERROR_LAUNCH_FAILED);
}
TEST_F(TensorTest, AMapOfAnotherRankEndsTheKernel) {
  Tensor t{CU_TENSOR_MAP_DATA_TYPE_INT32, 4, {32, 8}, {16, 4}, {1, 1}};
  CUtensorMap map;
  ASSERT_OK(Encode(t, Allocate(t.Bytes()), &map));
  EXPECT_EQ(Launch(Kernel({0, 0, 0}, true), map, Allocate(kSharedBytes)), CUDA_ERROR_LAUNCH_FAILED);
}
TEST_F(TensorTest, ATensorThatIsNotMappedIsAnIllegalAddress) {
  Tensor t{CU_TENSOR_MAP_DATA_TYPE_INT32, 4, {32, 8}, {16, 4}, {1, 1}};
  CUtensorMap map;
  ASSERT_OK(Encode(t, 0x10000, &map));
  EXPECT_EQ(Launch(Kernel({0, 0}, true), map, Allocate(kSharedBytes)), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace farcall::cpu_device
