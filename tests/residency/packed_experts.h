// SPDX-License-Identifier: Apache-2.0
//
// Experts of one layer in a packed shard, behind the reader of synthetic_experts.h.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/snapshot/packed_source.h"
#include "tests/residency/synthetic_experts.h"
#include "tests/snapshot/packed_shard.h"

namespace colibri::test {

inline TensorIndex make_packed_index(const PackedShard &shard,
                                     std::shared_ptr<ReaderControl> control) {
  const std::string file = shard.file();
  return make_index_of_file({file.begin(), file.end()}, std::move(control));
}

// gate and up [17, 40], down [40, 17], INT4 with BF16 scales
inline std::vector<MadeMatrix> make_expert_parts(uint32_t expert) {
  const auto make = [&](uint32_t columns, uint32_t depth, uint32_t part) {
    return make_packed_matrix(WeightFormat::kInt4, columns, depth, 16, ScaleType::kBF16,
                              3 * expert + part);
  };
  return {make(17, 40, 0), make(17, 40, 1), make(40, 17, 2)};
}

inline PackedShard make_expert_shard(uint32_t n_experts) {
  PackedShard shard;
  for (uint32_t expert = 0; expert < n_experts; ++expert) {
    shard.add_expert("e" + std::to_string(expert), make_expert_parts(expert));
  }
  return shard;
}

struct PackedExperts {
  explicit PackedExperts(uint32_t n_experts)
      : index(make_packed_index(make_expert_shard(n_experts), control)) {
    sources.layers.resize(1);
    for (uint32_t expert = 0; expert < n_experts; ++expert) {
      sources.layers[0].experts.push_back(
          find_packed_expert(index, "e" + std::to_string(expert), 17, 40));
    }
    control->reset_counts();
  }
  const std::vector<ExpertSource> &experts() const { return sources.layers[0].experts; }

  std::shared_ptr<ReaderControl> control = std::make_shared<ReaderControl>();
  TensorIndex index;
  ModelSources sources;
};

// Whether every weight of a matrix is that of `made`.
inline bool has_weights(const PackedMatrix &matrix, const MadeMatrix &made) {
  if (!(matrix.layout == made.layout)) return false;
  for (uint32_t column = 0; column < made.layout.columns; ++column) {
    for (uint32_t depth = 0; depth < made.layout.depth; ++depth) {
      const float expected = made.weights[size_t{column} * made.layout.depth + depth];
      if (unpack_weight(matrix, column, depth) != expected) return false;
    }
  }
  return true;
}

inline bool has_packed_weights(const ExpertView &view, uint32_t expert) {
  const std::vector<MadeMatrix> parts = make_expert_parts(expert);
  return has_weights(view.gate, parts[0]) && has_weights(view.up, parts[1]) &&
         has_weights(view.down, parts[2]);
}

}  // namespace colibri::test
