// SPDX-License-Identifier: Apache-2.0
//
// The workspace's plan equals what it takes, and its places do not overlap.

#include "lib/model/workspace.h"

#include "tests/golden/engine.h"
#include "tests/support/catch.h"

namespace colibri {
namespace {

const ModelConfig &sparse_config() {
  static const Snapshot snapshot =
      Snapshot::open(std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-sparse");
  return snapshot.config();
}

}  // namespace

TEST_CASE("places follow each other and end inside the planned bytes") {
  const WorkspaceShape shape = {8, 3, 100, 16};
  const Workspace workspace(sparse_config(), shape, nullptr, nullptr);
  const auto *first = reinterpret_cast<const uint8_t *>(workspace.hidden);
  const auto *last = reinterpret_cast<const uint8_t *>(workspace.logits +
                                                       size_t{3} * sparse_config().vocabulary_size);
  CHECK(workspace.normed - workspace.hidden >=
        static_cast<std::ptrdiff_t>(8 * sparse_config().width));
  CHECK(last > first);
  CHECK(static_cast<uint64_t>(last - first) <= Workspace::bytes(sparse_config(), shape));
}

TEST_CASE("score memory is bounded by a block of rows and absent while no slot can need it") {
  const ModelConfig &config = sparse_config();
  const Workspace short_slots(config, {64, 1, config.index_top_k, 16}, nullptr, nullptr);
  CHECK(short_slots.selected == nullptr);
  const uint64_t few = Workspace::bytes(config, {kScoreRows, 1, 100000, 16});
  const uint64_t many = Workspace::bytes(config, {4 * kScoreRows, 1, 100000, 16});
  CHECK(many - few < uint64_t{kScoreRows} * 100000 * sizeof(float));
}

TEST_CASE("a workspace of a published size at a long context does not wrap") {
  ModelConfig config = sparse_config();
  config.width = 6144;
  config.vocabulary_size = 154880;
  const uint64_t bytes = Workspace::bytes(config, {4096, 4096, 1u << 20, 16});
  CHECK(bytes > uint64_t{4096} * 154880 * 4);
}

TEST_CASE("there is room for the quantised queries of all heads, however wide they are") {
  ModelConfig config = sparse_config();
  const uint64_t narrow = Workspace::bytes(config, {8, 1, 100, 16});
  config.nope_width = 100 * config.kv_latent;
  const uint64_t wide = Workspace::bytes(config, {8, 1, 100, 16});
  // Beside the float queries, one byte per element of what a product quantises.
  const uint64_t n_elements = uint64_t{8} * config.n_heads * config.nope_width;
  const Workspace workspace(config, {8, 1, 100, 16}, nullptr, nullptr);
  CHECK(wide - narrow > n_elements * sizeof(float) + n_elements / 2);
  CHECK(reinterpret_cast<const int8_t *>(workspace.quantised_scales) - workspace.quantised >=
        static_cast<std::ptrdiff_t>(n_elements));
}

}  // namespace colibri
