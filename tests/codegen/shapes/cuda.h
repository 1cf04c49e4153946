// SPDX-License-Identifier: Apache-2.0
// A made-up API with one function per shape of parameter, for the generator's tests. Not NVIDIA's
// header.
#pragma once

#include <stddef.h>

#define CUDAAPI
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef enum cudaError_enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_UNKNOWN = 999
} CUresult;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUgreenCtx_st* CUgreenCtx;

typedef enum ShapeKind_enum { SHAPE_POINT = 3, SHAPE_LINE = 5 } ShapeKind;
typedef struct ShapePoint_st {
  float x;
  double y[2];
} ShapePoint;
typedef struct ShapeLine_st {
  ShapePoint ends[2];
  ShapeKind kind;
  unsigned char color[3];
} ShapeLine;

#ifdef __cplusplus
extern "C" {
#endif
CUresult cuInit(unsigned int Flags);
CUresult cuScalars(signed char c, short s, long long l, float f, double d, ShapeKind kind);
CUresult cuString(const char* text, int after);
CUresult cuOptionalIn(const int* value, const ShapePoint* point);
CUresult cuOptionalOut(int* needed, int* wanted);
CUresult cuOptionalContext(CUcontext context, int after);
CUresult cuInOut(int* value, ShapeKind* kind);
CUresult cuRecords(const ShapeLine* line, ShapeLine* out);
CUresult cuArrays(const double* values, unsigned int count, const ShapeKind* kinds);
CUresult cuBlocks(const CUevent* events, size_t count, CUstream stream);
#ifdef __cplusplus
}
#endif
