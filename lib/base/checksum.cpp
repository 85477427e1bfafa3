// SPDX-License-Identifier: Apache-2.0
//
// XXH_INLINE_ALL compiles the functions into this file, so that nothing is needed at run time.

#define XXH_INLINE_ALL
#include "lib/base/checksum.h"

#include <xxhash.h>

static_assert(XXH_VERSION_NUMBER >= 800, "xxhash 0.8.0 or newer: earlier ones had another XXH3");

namespace colibri {

struct StreamingChecksum::State {
  XXH3_state_t xxh3;
};

uint64_t checksum(std::span<const uint8_t> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

StreamingChecksum::StreamingChecksum() : state_(std::make_unique<State>()) {
  reset();
}

StreamingChecksum::~StreamingChecksum() = default;

void StreamingChecksum::add(std::span<const uint8_t> bytes) noexcept {
  if (!bytes.empty()) XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

uint64_t StreamingChecksum::value() const noexcept {
  return XXH3_64bits_digest(&state_->xxh3);
}

void StreamingChecksum::reset() noexcept {
  XXH3_64bits_reset(&state_->xxh3);
}

}  // namespace colibri
