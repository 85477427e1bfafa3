// SPDX-License-Identifier: Apache-2.0
//
// Fills the places of dense weights, in units that several threads share.

#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/model/dense_items.h"

namespace colibri {

// A piece of work: one vector, one kv_b_proj that is not packed, some rows of a matrix, or some
// bytes of a packed tensor.
struct LoadUnit {
  const DenseItem *item = nullptr;
  uint64_t first = 0;  // row; of packed tensors: byte
  uint64_t count = 0;  // rows or bytes
  uint64_t bytes = 0;  // of progress
};

// No unit of a matrix or of a packed tensor reads more than DenseWeights::kLoadSliceBytes, unless
// 128 rows are more.
std::vector<LoadUnit> cut_into_units(const std::vector<DenseItem> &items);

class UnitLoader {
 public:
  // Grown as needed; one per worker. Packed tensors need none.
  struct Staging {
    Buffer raw, packed;
  };

  // The targets of the list have been bound to `base`; both must outlive the loader.
  UnitLoader(const Snapshot &snapshot, uint8_t *base) noexcept : snapshot_(snapshot), base_(base) {}

  // Thread-safe for distinct units and staging. Throws Error: kIo, kMemory.
  void load(const LoadUnit &unit, Staging *staging) const;

 private:
  void load_rows(const LoadUnit &unit, uint8_t *place, Staging *staging) const;
  void load_kv_b(const DenseItem &item) const;
  void load_value_up(const DenseItem &item, Staging *staging) const;

  const Snapshot &snapshot_;
  uint8_t *base_;
};

}  // namespace colibri
