// SPDX-License-Identifier: Apache-2.0
//
// XXH3 of 64 bits: the checksum of packed snapshots. It finds damage, not forgery. checksum.cpp is
// the only includer of xxhash.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace colibri {

uint64_t checksum(std::span<const uint8_t> bytes) noexcept;  // XXH3_64bits, seed 0

// The same over pieces, in order.
class StreamingChecksum {
 public:
  StreamingChecksum();  // throws std::bad_alloc
  ~StreamingChecksum();
  StreamingChecksum(const StreamingChecksum &) = delete;
  StreamingChecksum &operator=(const StreamingChecksum &) = delete;

  void add(std::span<const uint8_t> bytes) noexcept;
  uint64_t value() const noexcept;  // of everything added so far
  void reset() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace colibri
