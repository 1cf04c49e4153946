// SPDX-License-Identifier: Apache-2.0
// The first cuBLAS API (cublas.h) over the second: no handle, letters for options, scalars by
// value, results returned. Its functions are generated (codegen/first_api.py); each uses one of
// these.
#pragma once

#include <cublas_api.h>

namespace farcall::cublas {

//   Thread  any; the handle is that of the current context
class First {
 public:
  // `name`: in BLAS, for what is said of a letter that is none.
  explicit First(const char* name = "");
  // Null: it could not be made, which the second API then says.
  cublasHandle_t handle() const { return handle_; }
  // False: a letter that is none.
  bool ok() const { return ok_; }
  // What cublasGetError answers next, if it is a failure.
  static void Say(cublasStatus_t status);

  cublasOperation_t Operation(char letter, int position);
  cublasFillMode_t Fill(char letter, int position);
  cublasSideMode_t Side(char letter, int position);
  cublasDiagType_t Diagonal(char letter, int position);

 private:
  int OneOf(char letter, const char* letters, int position);

  cublasHandle_t handle_ = nullptr;
  const char* name_;
  bool ok_ = true;
};

}  // namespace farcall::cublas
