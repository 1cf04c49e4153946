// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <numeric>
#include <vector>

#include "driver.h"

namespace {

CUarray Make(size_t width, size_t height, size_t depth, CUarray_format format, unsigned channels,
             unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = width;
  shape.Height = height;
  shape.Depth = depth;
  shape.Format = format;
  shape.NumChannels = channels;
  shape.Flags = flags;
  CUarray array = nullptr;
  CHECK(D(cuArray3DCreate_v2)(&array, &shape));
  return array;
}

void Shapes() {
  CUDA_ARRAY_DESCRIPTOR flat{64, 32, CU_AD_FORMAT_FLOAT, 2}, got{};
  CUarray array = nullptr;
  CHECK(D(cuArrayCreate_v2)(&array, &flat));
  CHECK(D(cuArrayGetDescriptor_v2)(&got, array));
  EXPECT(got.Width == 64 && got.Height == 32 && got.Format == CU_AD_FORMAT_FLOAT &&
         got.NumChannels == 2);
  CUDA_ARRAY3D_DESCRIPTOR whole{};
  CHECK(D(cuArray3DGetDescriptor_v2)(&whole, array));
  EXPECT(whole.Width == 64 && whole.Depth == 0 && whole.Flags == 0);
  CUDA_ARRAY_DESCRIPTOR_v1 narrow{};
  CHECK(D(cuArrayGetDescriptor)(&narrow, array));
  EXPECT(narrow.Width == 64 && narrow.Height == 32);
  CUarray plane = nullptr;
  EXPECT(D(cuArrayGetPlane)(&plane, array, 0) != CUDA_SUCCESS);  // its format has none
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuArrayGetMemoryRequirements)(&needs, array, 0));
  CUDA_ARRAY_SPARSE_PROPERTIES sparse{};
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuArrayGetSparseProperties)(&sparse, array));
  CHECK(D(cuArrayDestroy)(array));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuArrayDestroy)(array));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuArrayGetDescriptor_v2)(&got, array));
  CUarray later = Make(64, 32, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_DEFERRED_MAPPING);
  CHECK(D(cuArrayGetMemoryRequirements)(&needs, later, 0));
  EXPECT(needs.size >= 64 * 32 * 4 && needs.alignment != 0);
  CHECK(D(cuArrayDestroy)(later));
  flat.NumChannels = 3;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuArrayCreate_v2)(&array, &flat));
  flat.NumChannels = 1;
  flat.Width = 0;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuArrayCreate_v2)(&array, &flat));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuArrayCreate_v2)(&array, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuArray3DCreate_v2)(nullptr, &whole));
  CUDA_ARRAY_DESCRIPTOR_v1 old{16, 0, CU_AD_FORMAT_SIGNED_INT16, 1};
  CHECK(D(cuArrayCreate)(&array, &old));
  short row[16], back[16] = {};
  std::iota(row, row + 16, short{100});
  CHECK(D(cuMemcpyHtoA)(array, 0, row, sizeof(row)));
  CHECK(D(cuMemcpyAtoH)(back, array, 8, 16));
  EXPECT(back[0] == 104 && back[7] == 111 && back[8] == 0);
  CHECK(D(cuArrayDestroy)(array));
}

void Memory() {
  size_t before = 0, with = 0, after = 0, total = 0;
  CHECK(D(cuMemGetInfo_v2)(&before, &total));
  CUarray array = Make(1024, 1024, 0, CU_AD_FORMAT_FLOAT, 4);
  CHECK(D(cuMemGetInfo_v2)(&with, &total));
  EXPECT(before - with >= size_t{15} << 20);  // 16 MiB, less what earlier arrays still give back
  CHECK(D(cuArrayDestroy)(array));
  CHECK(D(cuCtxSynchronize)());
  // The refund follows the destruction, which waits for nobody.
  for (int i = 0; i < 1000 && after < before; ++i) CHECK(D(cuMemGetInfo_v2)(&after, &total));
  EXPECT(after >= before);
  CUDA_ARRAY3D_DESCRIPTOR huge{};
  huge.Width = huge.Height = huge.Depth = 16384;
  huge.Format = CU_AD_FORMAT_FLOAT;
  huge.NumChannels = 4;
  CODE(CUDA_ERROR_OUT_OF_MEMORY, D(cuArray3DCreate_v2)(&array, &huge));
}

// A rectangle of a large array, in pieces that begin and end within rows.
void Boxes() {
  constexpr size_t kWidth = 1000, kHeight = 700, kPitch = 1010;
  std::vector<uint32_t> source(kPitch * kHeight), back(kPitch * kHeight);
  std::iota(source.begin(), source.end(), 1u);
  CUarray array = Make(kWidth + 24, kHeight + 7, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1);
  CUDA_MEMCPY2D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = source.data();
  in.srcPitch = kPitch * 4;
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = array;
  in.dstXInBytes = 5 * 4;
  in.dstY = 3;
  in.WidthInBytes = kWidth * 4;
  in.Height = kHeight;
  CHECK(D(cuMemcpy2D_v2)(&in));
  CUDA_MEMCPY2D out{};
  out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  out.srcArray = array;
  out.srcXInBytes = 5 * 4;
  out.srcY = 3;
  out.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.dstHost = back.data();
  out.dstPitch = kPitch * 4;
  out.WidthInBytes = kWidth * 4;
  out.Height = kHeight;
  CHECK(D(cuMemcpy2D_v2)(&out));
  for (size_t y = 0; y < kHeight; ++y)
    for (size_t x = 0; x < kPitch; ++x)
      EXPECT(back[y * kPitch + x] == (x < kWidth ? source[y * kPitch + x] : 0));
  out.srcXInBytes = 30 * 4;  // 30 + 1000 > 1024
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemcpy2D_v2)(&out));
  out.srcXInBytes = 2;  // no element begins there
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemcpy2D_v2)(&out));
  out.srcXInBytes = 0;
  out.srcArray = nullptr;
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuMemcpy2D_v2)(&out));

  // Through device memory and another array, on a stream, from page-locked memory.
  CUstream stream = nullptr;
  CHECK(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  CUarray other = Make(kWidth, 2, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1);
  void* pinned = nullptr;
  CHECK(D(cuMemAllocHost_v2)(&pinned, kWidth * 4));
  auto* row = static_cast<uint32_t*>(pinned);
  for (size_t x = 0; x < kWidth; ++x) row[x] = static_cast<uint32_t>(7 * x);
  CUdeviceptr memory = 0;
  CHECK(D(cuMemAlloc_v2)(&memory, kWidth * 4));
  CHECK(D(cuMemcpyHtoAAsync_v2)(array, 0, pinned, kWidth * 4, stream));
  CHECK(D(cuStreamSynchronize)(stream));
  CHECK(D(cuMemcpyAtoA_v2)(other, 0, array, 0, kWidth * 4));
  CHECK(D(cuMemcpyAtoD_v2)(memory, other, 0, kWidth * 4));
  CHECK(D(cuMemsetD32_v2)(memory, 99, 1));
  CHECK(D(cuMemcpyDtoA_v2)(other, 40, memory, 400));
  for (size_t x = 0; x < kWidth; ++x) row[x] = 0;
  CHECK(D(cuCtxSynchronize)());  // the stream does not wait for the default one
  CHECK(D(cuMemcpyAtoHAsync_v2)(pinned, other, 0, kWidth * 4, stream));
  CHECK(D(cuStreamSynchronize)(stream));
  for (size_t x = 0; x < kWidth; ++x) {
    uint32_t expected = x == 10             ? 99
                        : x > 10 && x < 110 ? static_cast<uint32_t>(7 * (x - 10))
                                            : static_cast<uint32_t>(7 * x);
    EXPECT(row[x] == expected);
  }
  CHECK(D(cuMemFreeHost)(pinned));
  CHECK(D(cuArrayDestroy)(other));
  CHECK(D(cuArrayDestroy)(array));
}

void Volumes() {
  constexpr size_t kSide = 24;
  std::vector<uint8_t> source(kSide * kSide * kSide), back(source.size());
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 31 + i / 251);
  for (unsigned flags : {0u, unsigned{CUDA_ARRAY3D_LAYERED}}) {
    CUarray array = Make(kSide, kSide, kSide, CU_AD_FORMAT_UNSIGNED_INT8, 1, flags);
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source.data();
    copy.srcPitch = kSide;
    copy.srcHeight = kSide;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = copy.Height = copy.Depth = kSide;
    CHECK(D(cuMemcpy3D_v2)(&copy));
    CUDA_MEMCPY3D part{};
    part.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    part.srcArray = array;
    part.srcXInBytes = 3;
    part.srcY = 4;
    part.srcZ = 5;
    part.dstMemoryType = CU_MEMORYTYPE_HOST;
    part.dstHost = back.data();
    part.dstPitch = 10;
    part.dstHeight = 11;
    part.WidthInBytes = 10;
    part.Height = 11;
    part.Depth = 12;
    CHECK(D(cuMemcpy3D_v2)(&part));
    for (size_t z = 0; z < 12; ++z) {
      for (size_t y = 0; y < 11; ++y)
        for (size_t x = 0; x < 10; ++x)
          EXPECT(back[(z * 11 + y) * 10 + x] == source[((z + 5) * kSide + y + 4) * kSide + x + 3]);
    }
    part.Depth = kSide;
    CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemcpy3D_v2)(&part));
    CHECK(D(cuArrayDestroy)(array));
  }
}

void Mipmaps() {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = 40;
  shape.Height = 24;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  CUmipmappedArray mipmap = nullptr;
  CHECK(D(cuMipmappedArrayCreate)(&mipmap, &shape, 4));
  CUarray level = nullptr, again = nullptr;
  CHECK(D(cuMipmappedArrayGetLevel)(&level, mipmap, 2));
  CHECK(D(cuMipmappedArrayGetLevel)(&again, mipmap, 2));
  EXPECT(level == again);
  CUDA_ARRAY_DESCRIPTOR got{};
  CHECK(D(cuArrayGetDescriptor_v2)(&got, level));
  EXPECT(got.Width == 10 && got.Height == 6);
  float row[10], back[10] = {};
  std::iota(row, row + 10, 0.5f);
  CHECK(D(cuMemcpyHtoA_v2)(level, 0, row, sizeof(row)));
  CHECK(D(cuMemcpyAtoH_v2)(back, level, 0, sizeof(back)));
  EXPECT(back[9] == 9.5f);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMipmappedArrayGetLevel)(&level, mipmap, 9));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuArrayDestroy)(again));  // it goes with the whole
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMipmappedArrayGetMemoryRequirements)(&needs, mipmap, 0));
  CUDA_ARRAY_SPARSE_PROPERTIES sparse{};
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMipmappedArrayGetSparseProperties)(&sparse, mipmap));
  CHECK(D(cuMipmappedArrayDestroy)(mipmap));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuMemcpyAtoH_v2)(back, again, 0, sizeof(back)));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuMipmappedArrayDestroy)(mipmap));
}

}  // namespace

void ArraysSubject() {
  Shapes();
  Memory();
  Boxes();
  Volumes();
  Mipmaps();
}
