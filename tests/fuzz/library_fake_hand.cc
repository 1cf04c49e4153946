// SPDX-License-Identifier: Apache-2.0
// Functions of the fakes whose arguments no spec describes. Each fake needs this library, so that a
// look-up in a fake finds them.
#include <cublasLt.h>
#include <cudnn.h>
#include <cufft.h>
#include <cufftXt.h>
#include <curand.h>
#include <cusolverRf.h>
#include <cusparse.h>

#include <cstdlib>
#include <cstring>

#include "generated/proto/cudnn_call.h"
#include "generated/proto/cufft_call.h"
#include "generated/proto/curand_call.h"
#include "generated/proto/cusolver_call.h"
#include "generated/proto/cusparse_call.h"
#include "proto/library/cudnn_backend.h"
#include "proto/library/library_sizes.h"
#include "tests/fuzz/library_fake.h"

using namespace farcall;
using farcall::fuzz::Fake;
using farcall::thin::Times;

namespace {

constexpr size_t kTableBytes = 20000 * sizeof(curandDirectionVectors64_t);

template <typename Status>
Status Property(int* value) {
  *value = 1;
  return static_cast<Status>(0);
}

// As the server keeps an attribute from being an address that it does not know for one.
template <typename Attribute>
cublasStatus_t SetAttribute(const char* name, Attribute attribute, const void* value, size_t bytes,
                            std::initializer_list<Attribute> addresses) {
  Fake fake(name, false);
  fake.Read(value, bytes);
  for (Attribute one : addresses) {
    uint64_t address = 0;
    if (one == attribute && bytes == sizeof(address)) {
      std::memcpy(&address, value, sizeof(address));
      fake.Device(reinterpret_cast<const void*>(address));
    }
  }
  return static_cast<cublasStatus_t>(fake.Status());
}

template <typename Opaque>
cublasStatus_t Init(const char* name, Opaque* at, size_t bytes) {
  Fake fake(name, false);
  if (bytes == sizeof(*at)) fake.Write(at, bytes);
  return static_cast<cublasStatus_t>(fake.Status());
}

}  // namespace

extern "C" {

cublasStatus_t cublasGetProperty(libraryPropertyType, int* value) {
  return Property<cublasStatus_t>(value);
}
cublasStatus_t cublasLtGetProperty(libraryPropertyType, int* value) {
  return Property<cublasStatus_t>(value);
}
cudnnStatus_t cudnnGetProperty(libraryPropertyType, int* value) {
  return Property<cudnnStatus_t>(value);
}
cusparseStatus_t cusparseGetProperty(libraryPropertyType, int* value) {
  return Property<cusparseStatus_t>(value);
}
cusolverStatus_t cusolverGetProperty(libraryPropertyType, int* value) {
  return Property<cusolverStatus_t>(value);
}

// ---- cuBLASLt's descriptors
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t at, size_t bytes,
                                               cublasComputeType_t, cudaDataType_t) {
  return Init("cublasLtMatmulDescInit_internal", at, bytes);
}
cublasStatus_t cublasLtEmulationDescInit_internal(cublasLtEmulationDesc_t at, size_t bytes) {
  return Init("cublasLtEmulationDescInit_internal", at, bytes);
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t at, size_t bytes,
                                                 cudaDataType, uint64_t, uint64_t, int64_t) {
  return Init("cublasLtMatrixLayoutInit_internal", at, bytes);
}
cublasStatus_t cublasLtMatrixTransformDescInit_internal(cublasLtMatrixTransformDesc_t at,
                                                        size_t bytes, cudaDataType) {
  return Init("cublasLtMatrixTransformDescInit_internal", at, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t at, size_t bytes) {
  return Init("cublasLtMatmulPreferenceInit_internal", at, bytes);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  return SetAttribute(
      "cublasLtMatmulDescSetAttribute", attribute, value, bytes,
      {CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
       CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
       CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
       CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER,
       CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER});
}
cublasStatus_t cublasLtEmulationDescSetAttribute(cublasLtEmulationDesc_t,
                                                 cublasLtEmulationDescAttributes_t attribute,
                                                 const void* value, size_t bytes) {
  return SetAttribute("cublasLtEmulationDescSetAttribute", attribute, value, bytes,
                      {CUBLASLT_EMULATION_DESC_FIXEDPOINT_MANTISSA_BIT_COUNT_POINTER});
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  return SetAttribute("cublasLtMatrixLayoutSetAttribute", attribute, value, bytes, {});
}
cublasStatus_t cublasLtMatrixTransformDescSetAttribute(
    cublasLtMatrixTransformDesc_t, cublasLtMatrixTransformDescAttributes_t attribute,
    const void* value, size_t bytes) {
  return SetAttribute("cublasLtMatrixTransformDescSetAttribute", attribute, value, bytes, {});
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return SetAttribute("cublasLtMatmulPreferenceSetAttribute", attribute, value, bytes, {});
}

// ---- cuDNN's backend
void cudnnGetLastErrorString(char* text, size_t bytes) {
  Fake fake("cudnnGetLastErrorString", false);
  std::memset(text, 'e', bytes);
  text[bytes - 1] = 0;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t,
                                           cudnnBackendDescriptor_t* made) {
  Fake fake("cudnnBackendCreateDescriptor", false);
  fake.Make(made, cudnn::kKind_cudnnBackendDescriptor_t);
  return static_cast<cudnnStatus_t>(fake.Status());
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attribute,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  Fake fake("cudnnBackendSetAttribute", false);
  fake.Object(descriptor, {cudnn::kKind_cudnnBackendDescriptor_t}, false);
  if (elements == nullptr || count <= 0) return static_cast<cudnnStatus_t>(fake.Status());
  fake.Read(elements, Times(count, std::max<uint64_t>(thin::BackendElementBytes(type), 1)));
  const bool is_data = attribute == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS;
  void* const* pointers = static_cast<void* const*>(elements);
  for (int64_t i = 0; i < count; ++i)
    if (type == CUDNN_TYPE_HANDLE)
      fake.Object(pointers[i], {cudnn::kKind_cudnnHandle_t}, true);
    else if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && pointers[i] != descriptor)
      fake.Object(pointers[i], {cudnn::kKind_cudnnBackendDescriptor_t}, true);
    else if (type == CUDNN_TYPE_VOID_PTR && is_data)
      fake.Any(pointers[i], 16);
    else if (type == CUDNN_TYPE_VOID_PTR)
      fake.Device(pointers[i]);
  return static_cast<cudnnStatus_t>(fake.Status());
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t* count, void* elements) {
  Fake fake("cudnnBackendGetAttribute", true);
  fake.Object(descriptor, {cudnn::kKind_cudnnBackendDescriptor_t}, false);
  fake.Write(count, sizeof(*count));
  if (elements == nullptr || wanted <= 0) return static_cast<cudnnStatus_t>(fake.Status());
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR || type == CUDNN_TYPE_HANDLE)
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < wanted; ++i)
      fake.Object(static_cast<void**>(elements)[i], {cudnn::kKind_cudnnBackendDescriptor_t}, true);
  else if (type == CUDNN_TYPE_VOID_PTR)
    for (int64_t i = 0; i < wanted; ++i) fake.WriteAddress(static_cast<void**>(elements) + i);
  else
    fake.Write(elements, Times(wanted, std::max<uint64_t>(thin::BackendElementBytes(type), 16)));
  return static_cast<cudnnStatus_t>(fake.Status());
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Fake fake("cudnnBackendFinalize", true);
  fake.Object(descriptor, {cudnn::kKind_cudnnBackendDescriptor_t}, false);
  return static_cast<cudnnStatus_t>(fake.Status());
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  Fake fake("cudnnBackendExecute", false);
  fake.Object(handle, {cudnn::kKind_cudnnHandle_t}, false);
  fake.Object(plan, {cudnn::kKind_cudnnBackendDescriptor_t}, false);
  fake.Object(pack, {cudnn::kKind_cudnnBackendDescriptor_t}, false);
  return static_cast<cudnnStatus_t>(fake.Status());
}

// ---- cuFFT, cuSPARSE
cufftResult cufftXtSetJITCallback(cufftHandle plan, const char* symbol, const void* code,
                                  size_t bytes, cufftXtCallbackType, void** info) {
  Fake fake("cufftXtSetJITCallback", false);
  fake.Object(plan, {cufft::kKind_cufftHandle}, false);
  fake.Text(symbol);
  fake.Read(code, bytes);
  if (info != nullptr) fake.Addresses(info, 1);
  return static_cast<cufftResult>(fake.Status());
}
cufftResult cufftGetProperty(libraryPropertyType, int* value) {
  return Property<cufftResult>(value);
}
cusparseIndexBase_t cusparseGetMatIndexBase(const cusparseMatDescr_t descriptor) {
  Fake fake("cusparseGetMatIndexBase", false);
  fake.Object(const_cast<cusparseMatDescr*>(descriptor),
              {cusparse::kKind_cusparseMatDescr_t, cusolver::kKind_cusparseMatDescr_t}, false);
  return CUSPARSE_INDEX_BASE_ZERO;
}

// ---- cuRAND
curandStatus_t curandGetProperty(libraryPropertyType, int* value) {
  return Property<curandStatus_t>(value);
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_t* made, curandRngType_t) {
  Fake fake("curandCreateGeneratorHost", false);
  fake.Make(made, LibraryKind(LibraryId::kCurand, 2));
  return static_cast<curandStatus_t>(fake.Status());
}
curandStatus_t curandGetDirectionVectors32(curandDirectionVectors32_t** vectors,
                                           curandDirectionVectorSet_t) {
  static unsigned char table[kTableBytes];
  *vectors = reinterpret_cast<curandDirectionVectors32_t*>(table);
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGetScrambleConstants64(unsigned long long** constants) {
  static unsigned long long table[20000];
  *constants = table;
  return CURAND_STATUS_SUCCESS;
}

// ---- cuSOLVER's Rf, whose results are the caller's to free
cusolverStatus_t cusolverRfExtractBundledFactorsHost(cusolverRfHandle_t handle, int* nonzeros,
                                                     int** rows, int** columns, double** values) {
  Fake fake("cusolverRfExtractBundledFactorsHost", false);
  fake.Object(handle, {cusolver::kKind_cusolverRfHandle_t}, false);
  fake.Write(nonzeros, sizeof(*nonzeros));
  *rows = static_cast<int*>(std::calloc(8, sizeof(int)));
  *columns = static_cast<int*>(std::calloc(8, sizeof(int)));
  *values = static_cast<double*>(std::calloc(8, sizeof(double)));
  return static_cast<cusolverStatus_t>(fake.Status());
}
cusolverStatus_t cusolverRfBatchSetupHost(int batch, int n, int nonzeros, int* rows, int* columns,
                                          double* values[], int lower, int* lower_rows,
                                          int* lower_columns, double* lower_values, int upper,
                                          int* upper_rows, int* upper_columns, double* upper_values,
                                          int* p, int* q, cusolverRfHandle_t handle) {
  Fake fake("cusolverRfBatchSetupHost", false);
  fake.Object(handle, {cusolver::kKind_cusolverRfHandle_t}, false);
  fake.Read(rows, Times(n + 1, sizeof(int)));
  fake.Read(columns, Times(nonzeros, sizeof(int)));
  for (int i = 0; i < batch; ++i) fake.Read(values[i], Times(nonzeros, sizeof(double)));
  fake.Read(lower_rows, Times(n + 1, sizeof(int)));
  fake.Read(lower_columns, Times(lower, sizeof(int)));
  fake.Read(lower_values, Times(lower, sizeof(double)));
  fake.Read(upper_rows, Times(n + 1, sizeof(int)));
  fake.Read(upper_columns, Times(upper, sizeof(int)));
  fake.Read(upper_values, Times(upper, sizeof(double)));
  fake.Read(p, Times(n, sizeof(int)));
  fake.Read(q, Times(n, sizeof(int)));
  return static_cast<cusolverStatus_t>(fake.Status());
}

}  // extern "C"
