// SPDX-License-Identifier: Apache-2.0
//
// What tells that the files of a source are not those from which a conversion was begun. The
// identity of a snapshot covers names, sizes and headers; this also the times of the files, so that
// weights that were written over in place are noticed without reading them.

#pragma once

#include <cstdint>
#include <string>

#include "lib/snapshot/tensor_index.h"

namespace colibri {

// A number that is the same as long as nobody writes to a shard.
uint64_t read_source_state(const TensorIndex &index);

// Throws Error(kArgument) if `destination` is the source's folder or would lie in it.
void require_outside(const std::string &destination, const std::string &source_directory);

}  // namespace colibri
