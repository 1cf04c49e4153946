// SPDX-License-Identifier: Apache-2.0
// Empty: the made-up API has no profiler.
#pragma once
