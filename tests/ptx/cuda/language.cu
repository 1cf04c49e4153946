// SPDX-License-Identifier: Apache-2.0
// CUDA C++ whose PTX the parser must read: calls, tables, variables, printf, assert, malloc,
// switch, recursion, inline asm.
#include <cassert>
#include <cstdint>
#include <cstdio>

__constant__ float weights[4] = {1, 2, 3, 4};
__constant__ struct {
  int a;
  const char* name;
} record = {7, "seven"};
__device__ int counter = 3;
__managed__ int shared_with_host;
__device__ const char* const names[3] = {"a", "bb", "ccc"};
extern __shared__ double dynamic[];

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual float Area() const = 0;
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float Area() const override { return side * side; }
};
struct Circle : Shape {
  float radius;
  __device__ explicit Circle(float r) : radius(r) {}
  __device__ float Area() const override { return 3.14159f * radius * radius; }
};

__device__ __noinline__ int Fibonacci(int n) {
  return n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2);
}

typedef float (*Operation)(float, float);
__device__ float Add(float a, float b) {
  return a + b;
}
__device__ float Sub(float a, float b) {
  return a - b;
}
__device__ Operation operations[2] = {Add, Sub};

struct Big {
  double values[6];
  short tag;
};
__device__ __noinline__ Big Twist(Big b, int k) {
  Big r = b;
  for (int i = 0; i < 6; ++i) r.values[i] = b.values[(i + k) % 6];
  r.tag = static_cast<short>(k);
  return r;
}

__global__ void Virtuals(float* out, int n) {
  Shape* s = n & 1 ? static_cast<Shape*>(new Square(2)) : static_cast<Shape*>(new Circle(1));
  out[threadIdx.x] = s->Area();
  delete s;
}

__global__ void Pointers(float* out, int which) {
  out[threadIdx.x] = operations[which](out[0], weights[which]);
}

__global__ void Structs(Big* out, Big in) {
  out[threadIdx.x] = Twist(in, threadIdx.x);
}

__global__ __launch_bounds__(128, 2) void Switches(int* out, int n) {
  int r = 0;
  switch (n) {
    case 0:
      r = 5;
      break;
    case 1:
      r = Fibonacci(7);
      break;
    case 2:
      r = counter;
      break;
    case 3:
      r = record.a;
      break;
    case 4:
      r = names[threadIdx.x % 3][0];
      break;
    case 5:
      r = __clz(n);
      break;
    case 6:
      r = __popc(n) * 3;
      break;
    case 7:
      r = atomicAdd(&counter, 1);
      break;
    default:
      r = -1;
  }
  assert(r != 12345);
  if (r == 3) printf("r=%d %s %f %llu\n", r, record.name, 1.5, 7ull);
  out[threadIdx.x] = r + shared_with_host;
}

__global__ void Local(int* out, const int* in, int n) {
  int scratch[32];
  for (int i = 0; i < 32; ++i) scratch[i] = in[i] * n;
  out[threadIdx.x] = scratch[out[threadIdx.x] & 31];
}

__global__ void Assembly(unsigned* out, unsigned a) {
  unsigned r;
  asm volatile(
      "{\n .reg .pred p;\n .reg .b32 t;\n LOOP:\n  sub.u32 t, %1, 1;\n setp.eq.u32 p, t, t;\n @!p "
      "bra LOOP;\n mov.u32 %0, t;\n}"
      : "=r"(r)
      : "r"(a));
  asm("{ .reg .v2 .b32 v; mov.b32 v.x, %1; mov.b32 %0, v.x; }" : "=r"(out[1]) : "r"(r));
  asm volatile("prefetch.global.L2 [%0];" ::"l"(out));
  out[0] = r;
}

template <typename T>
__global__ void Math(T* out, const T* in) {
  T x = in[threadIdx.x];
  out[0] = sin(x) + cos(x) * exp(x) - log(x);
  out[1] = pow(x, T(1.7)) + tanh(x) + sqrt(x) + rsqrt(x);
  out[2] = erf(x) + tgamma(x) + floor(x) + rint(x) + fmod(x, T(3));
  out[3] = x / T(3) + cbrt(x) + atan2(x, T(2)) + hypot(x, T(1));
}
template __global__ void Math<float>(float*, const float*);
template __global__ void Math<double>(double*, const double*);

__global__ void Wide(uint64_t* out, uint64_t a, uint64_t b, __int128 c) {
  out[0] = __umul64hi(a, b);
  out[1] = a / b;
  out[2] = static_cast<uint64_t>((c * a) >> 64);
  out[3] = static_cast<uint64_t>(c / static_cast<__int128>(b));
  out[4] = __brevll(a) + __ffsll(b) + __funnelshift_l(static_cast<unsigned>(a), 5, 7);
}
