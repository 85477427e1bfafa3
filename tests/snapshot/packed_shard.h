// SPDX-License-Identifier: Apache-2.0
//
// Shards of packed snapshots, made by hand: matrices of every format whose weights are known, and a
// file around them that a test may bend. Used by the tests of several folders.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/weight_layout.h"
#include "lib/snapshot/packed_manifest.h"

namespace colibri::test {

// A matrix with what every weight of it is.
struct MadeMatrix {
  WeightLayout layout;
  std::string bytes;           // packed, layout.total_bytes()
  std::vector<float> weights;  // [columns][depth]: row-major as a checkpoint has it
};

// group 0 for INT4 and INT8: one scale per column. Scales are exact in BF16 as well. `seed` makes
// matrices differ.
MadeMatrix make_packed_matrix(WeightFormat format, uint32_t columns, uint32_t depth,
                              uint32_t group = 0, ScaleType scales = ScaleType::kF32,
                              uint32_t seed = 0);

PackedLayout layout_of(PackedForm form, const std::vector<MadeMatrix> &parts, uint32_t n_heads = 1);

// Tensors stand in the file in the order in which they are added, the first at a multiple of
// kPackedAlignment.
class PackedShard {
 public:
  PackedShard();

  // A tensor that the manifest lists as not packed.
  void add_plain(const std::string &name, const std::string &type,
                 const std::vector<uint64_t> &shape, const std::string &data);
  void add_packed(const std::string &name, const PackedLayout &layout, std::string data);
  void add_matrix(const std::string &name, const MadeMatrix &matrix);
  // gate, up, down
  void add_expert(const std::string &name, const std::vector<MadeMatrix> &parts);
  // Key half and value half of each head, one after another.
  void add_heads(const std::string &name, const std::vector<MadeMatrix> &parts);

  // Written as it stands, with a checksum for every tensor. Facts are set; tests change it.
  PackedManifest manifest;
  std::string file() const;
  // The same around any text in the place of the manifest; without the key if `text` is empty.
  std::string file_with(const std::string &text) const;

 private:
  void add(const std::string &name, const std::string &type, const std::vector<uint64_t> &shape,
           const std::string &data, int32_t layout);

  std::string entries_;  // of the header
  std::string data_;
};

// A file whose header was changed, with the checksum of what it is now.
std::string seal_again(std::string file);

}  // namespace colibri::test
