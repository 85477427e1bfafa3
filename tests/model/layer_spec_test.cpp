// SPDX-License-Identifier: Apache-2.0
//
// Layer lists from a configuration.

#include "lib/model/layer_spec.h"

#include "tests/support/catch.h"
#include "tests/support/expect_failure.h"

namespace colibri {

TEST_CASE("layers follow the configuration's lists") {
  ModelConfig config;
  config.n_layers = 3;
  config.index_top_k = 4;
  config.indexer_kinds = {IndexerKind::kFull, IndexerKind::kShared, IndexerKind::kFull};
  config.feed_forward_kinds = {FeedForwardKind::kDense, FeedForwardKind::kMoe,
                               FeedForwardKind::kMoe};
  const std::vector<LayerSpec> layers = describe_layers(config);
  REQUIRE(layers.size() == 3);
  CHECK(layers[0].feed_forward == FeedForwardKind::kDense);
  CHECK(layers[1].indexer == IndexerKind::kShared);
  CHECK(layers[2].feed_forward == FeedForwardKind::kMoe);
}

TEST_CASE("a model without sparse attention has no indexer in any layer") {
  ModelConfig config;
  config.n_layers = 2;
  config.feed_forward_kinds = {FeedForwardKind::kDense, FeedForwardKind::kMoe};
  for (const LayerSpec &layer : describe_layers(config)) CHECK(layer.indexer == IndexerKind::kNone);
}

TEST_CASE("windows of layers come from the configuration, none are none") {
  ModelConfig config;
  config.n_layers = 2;
  config.attention = AttentionKind::kGrouped;
  config.feed_forward_kinds.assign(2, FeedForwardKind::kMoe);
  CHECK(describe_layers(config)[0].window == 0);
  config.windows = {0, 16};
  CHECK(describe_layers(config)[1].window == 16);
  CHECK(describe_layers(config)[1].attention == AttentionKind::kGrouped);
}

}  // namespace colibri
