// SPDX-License-Identifier: Apache-2.0
//
// TinyModel (fixture.h) as a packed snapshot: experts INT4 with BF16 scales, kv_b_proj by heads,
// other matrices INT8, the rest as it was. A test may bend it before it is written.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/snapshot/fixture.h"
#include "tests/snapshot/packed_shard.h"

namespace colibri::test {

struct PackedEntry {
  std::string name;
  std::optional<PackedForm> form;  // nothing: `plain` is stored as it is
  std::vector<MadeMatrix> parts;   // kHeads: key half and value half of each head
  TestTensor plain;
};

struct PackedModel {
  PackedModel();

  TinyModel tiny;                    // its config counts, its tensors do not
  std::vector<PackedEntry> entries;  // packed ones first

  PackedEntry &find(const std::string &name);
  void erase(const std::string &name);
  // Packed entries go before all others.
  void add(PackedEntry entry);
  PackedShard shard() const;
  // Writes config.json and model.safetensors.
  void write(const TempFolder &folder) const;
};

// The same weights as a model of plain F32 matrices.
TinyModel make_plain(const PackedModel &model);

}  // namespace colibri::test
