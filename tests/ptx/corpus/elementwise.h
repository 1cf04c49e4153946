// SPDX-License-Identifier: Apache-2.0
// Cases that apply one instruction to many inputs: d[i] = op(a[i], b[i], c[i]), inputs crossed with
// each other.
#pragma once

#include <functional>
#include <type_traits>

#include "tests/ptx/corpus/corpus.h"

namespace farcall::cpu_device::ptx_corpus {

// 16-bit floats as bits; a type of their own so that outputs compare as numbers.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

template <typename T>
constexpr Match MatchOf() {
  if constexpr (std::is_same_v<T, float>) return Match::kF32;
  if constexpr (std::is_same_v<T, double>) return Match::kF64;
  if constexpr (std::is_same_v<T, Half>) return Match::kF16;
  if constexpr (std::is_same_v<T, Bfloat>) return Match::kBf16;
  return Match::kExact;
}

// How a C++ type travels: register declaration type and the type of its loads and stores.
struct Slot {
  const char* reg;
  const char* memory;
  unsigned bytes;
};
template <typename T>
constexpr Slot SlotOf() {
  if constexpr (std::is_same_v<T, float>) return {"f32", "f32", 4};
  if constexpr (std::is_same_v<T, double>) return {"f64", "f64", 8};
  if constexpr (sizeof(T) == 1) return {"b16", std::is_signed_v<T> ? "s8" : "u8", 1};
  if constexpr (sizeof(T) == 2) return {"b16", "b16", 2};
  if constexpr (sizeof(T) == 4) return {"b32", "b32", 4};
  return {"b64", "b64", 8};
}

// A module with kernel k(d, a, b, c, n) whose body reads %a, %b, %c (as many as sources) and writes
// %d. Scratch: predicates %p %q %pp, %t0-7 (.b32), %u0-7 (.b64), %h0-7 (.b16), %f0-7 (.f32), %g0-7
// (.f64).
std::string ElementwiseModule(const std::string& body, Slot d, const std::vector<Slot>& sources);
Case ElementwiseCase(const std::string& name, const std::string& body, size_t count, Slot d,
                     const std::vector<Slot>& sources);

template <typename R, typename A>
Case Unary(const std::string& name, const std::string& body, const std::vector<A>& as,
           const std::function<R(A)>& expected, double tolerance = 0) {
  std::vector<R> results;
  for (A a : as) results.push_back(expected(a));
  Case c = ElementwiseCase(name, body, as.size(), SlotOf<R>(), {SlotOf<A>()});
  c.arguments[0] = Output(results);
  c.arguments[0].match = MatchOf<R>();
  c.arguments[0].relative_tolerance = tolerance;
  c.arguments[1] = Input(as);
  return c;
}

template <typename R, typename A, typename B>
Case Binary(const std::string& name, const std::string& body, const std::vector<A>& as,
            const std::vector<B>& bs, const std::function<R(A, B)>& expected,
            double tolerance = 0) {
  std::vector<R> results;
  std::vector<A> xs;
  std::vector<B> ys;
  for (A a : as) {
    for (B b : bs) {
      xs.push_back(a);
      ys.push_back(b);
      results.push_back(expected(a, b));
    }
  }
  Case c = ElementwiseCase(name, body, xs.size(), SlotOf<R>(), {SlotOf<A>(), SlotOf<B>()});
  c.arguments[0] = Output(results);
  c.arguments[0].match = MatchOf<R>();
  c.arguments[0].relative_tolerance = tolerance;
  c.arguments[1] = Input(xs);
  c.arguments[2] = Input(ys);
  return c;
}

template <typename R, typename A, typename B, typename C>
Case Ternary(const std::string& name, const std::string& body, const std::vector<A>& as,
             const std::vector<B>& bs, const std::vector<C>& cs,
             const std::function<R(A, B, C)>& expected, double tolerance = 0) {
  std::vector<R> results;
  std::vector<A> xs;
  std::vector<B> ys;
  std::vector<C> zs;
  for (A a : as) {
    for (B b : bs) {
      for (C c : cs) {
        xs.push_back(a);
        ys.push_back(b);
        zs.push_back(c);
        results.push_back(expected(a, b, c));
      }
    }
  }
  Case made =
      ElementwiseCase(name, body, xs.size(), SlotOf<R>(), {SlotOf<A>(), SlotOf<B>(), SlotOf<C>()});
  made.arguments[0] = Output(results);
  made.arguments[0].match = MatchOf<R>();
  made.arguments[0].relative_tolerance = tolerance;
  made.arguments[1] = Input(xs);
  made.arguments[2] = Input(ys);
  made.arguments[3] = Input(zs);
  return made;
}

// The files of the corpus.
void AddIntegerCases(std::vector<Case>* out);
void AddBitCases(std::vector<Case>* out);
void AddVideoCases(std::vector<Case>* out);
void AddFloatCases(std::vector<Case>* out);
void AddHalfCases(std::vector<Case>* out);
void AddCompareCases(std::vector<Case>* out);
void AddConvertCases(std::vector<Case>* out);
void AddMemoryCases(std::vector<Case>* out);
void AddAtomicCases(std::vector<Case>* out);
void AddWarpCases(std::vector<Case>* out);
void AddControlCases(std::vector<Case>* out);
void AddMatrixCases(std::vector<Case>* out);
void AddWmmaCases(std::vector<Case>* out);
void AddAsyncCases(std::vector<Case>* out);
void AddLibraryCases(std::vector<Case>* out);
void AddMpfrCases(std::vector<Case>* out);
void AddTransferCases(std::vector<Case>* out);

}  // namespace farcall::cpu_device::ptx_corpus
