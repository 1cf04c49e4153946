// SPDX-License-Identifier: Apache-2.0
// Values a library hangs on a context (the CONTEXT_LOCAL_STORAGE table), with their destructors.
#pragma once

#include "cuda-abi/export_tables.h"

namespace farcall::cuda_abi {

void PutContextStorage(ContextHandle context, void* key, void* value,
                       ContextStorageDestructor destroy);
// false: no such key.
bool DeleteContextStorage(ContextHandle context, void* key);
bool GetContextStorage(ContextHandle context, void* key, void** value);

}  // namespace farcall::cuda_abi
