// SPDX-License-Identifier: Apache-2.0
//
// Makes the backend of a model. backends.cpp is the only file of lib/ that knows which devices
// exist.

#pragma once

#include <memory>
#include <string_view>

#include "lib/backend/backend.h"
#include "lib/base/parallel.h"

namespace colibri {

// `kernel_set`: a name, or empty for the fastest that this machine runs. `threads` must outlive the
// backend. Throws Error: kArgument for an unknown name, kUnsupported for one that this CPU cannot
// run.
std::unique_ptr<Backend> make_backend(ThreadPool &threads, std::string_view kernel_set);

}  // namespace colibri
