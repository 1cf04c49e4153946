// SPDX-License-Identifier: Apache-2.0
// cublasXt on one device: matrices of the host are copied there, the second API computes, and what
// it wrote is copied back before the call returns. They have to fit the device's memory together.
#pragma once

#include <cublasXt.h>

#include <cstdint>
#include <functional>
#include <initializer_list>

namespace farcall::cublas {

// A column-major matrix of a call: the caller's, and where the device has it.
class XtMatrix {
 public:
  enum class Use { kRead, kChanged, kScratch };  // kScratch: the call's own, on the device alone

  XtMatrix(const void* caller, size_t rows, size_t columns, size_t pitch, size_t element_bytes,
           Use use)
      : caller_(const_cast<void*>(caller)),
        rows_(rows),
        columns_(columns),
        pitch_(pitch),
        element_bytes_(element_bytes),
        use_(use) {}
  XtMatrix(const XtMatrix&) = delete;
  ~XtMatrix();

  // Statuses of the library's.
  cublasStatus_t Check() const;
  cublasStatus_t Place();
  cublasStatus_t Return();
  template <typename T>
  T* at() const {
    return static_cast<T*>(device_);
  }
  int64_t pitch() const { return static_cast<int64_t>(copied_ ? rows_ : pitch_); }

 private:
  cublasStatus_t Copy(bool to_device);

  void* caller_;
  size_t rows_, columns_, pitch_, element_bytes_;  // pitch in elements
  Use use_;
  void* device_ = nullptr;
  bool copied_ = false;
};

// Places the matrices, computes on the handle's device, returns what was written.
cublasStatus_t RunXt(cublasXtHandle_t handle, std::initializer_list<const void*> scalars,
                     std::initializer_list<XtMatrix*> matrices,
                     const std::function<cublasStatus_t(cublasHandle_t)>& compute);

}  // namespace farcall::cublas
