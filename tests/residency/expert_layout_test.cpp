// SPDX-License-Identifier: Apache-2.0

#include "lib/residency/expert_layout.h"

#include "lib/residency/weight_packing.h"
#include "tests/residency/synthetic_experts.h"
#include "tests/support/catch.h"

using namespace colibri;
using colibri::test::SyntheticModel;
using colibri::test::SyntheticShape;

TEST_CASE("matrices of an expert follow one another, 64-byte aligned, and end inside its bytes") {
  const SyntheticModel model(SyntheticShape{{0, 17, 40}, 2, 24});
  for (const uint32_t layer : {1u, 2u}) {
    const ExpertSource &source = model.sources.layers[layer].experts[1];
    const uint8_t *slot = reinterpret_cast<const uint8_t *>(uintptr_t{1} << 20);
    const ExpertView view = view_expert(source, slot);
    REQUIRE(view.gate.values == slot);
    REQUIRE(view.up.values == view.gate.values + view.gate.layout.total_bytes());
    REQUIRE(view.down.values == view.up.values + view.up.layout.total_bytes());
    REQUIRE(reinterpret_cast<uintptr_t>(view.up.values) % 64 == 0);
    REQUIRE(reinterpret_cast<uintptr_t>(view.down.values) % 64 == 0);
    REQUIRE(view.down.values + view.down.layout.total_bytes() <= slot + packed_bytes(source));
    REQUIRE(packed_bytes(source) % kPageBytes == 0);
    REQUIRE(packed_bytes(source) == model.expert_bytes(layer));
  }
}

TEST_CASE("staging of an expert is that of its largest matrix") {
  const SyntheticModel model(SyntheticShape{{5}, 1, 24});
  const ExpertSource &source = model.sources.layers[0].experts[0];
  REQUIRE(staging_bytes(source) >= 5 * 24 * sizeof(float));
  for (const WeightSource *matrix : {&source.gate, &source.up, &source.down}) {
    REQUIRE(staging_bytes(source) >= staging_bytes(*matrix));
  }
}
