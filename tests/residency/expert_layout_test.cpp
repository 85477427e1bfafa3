// SPDX-License-Identifier: Apache-2.0

#include "lib/residency/expert_layout.h"

#include <cstring>
#include <string>

#include "lib/base/buffer.h"
#include "lib/residency/weight_packing.h"
#include "tests/residency/packed_experts.h"
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

TEST_CASE("a packed expert takes the bytes of its tensor and no staging") {
  const test::PackedExperts model(2);
  for (const ExpertSource &source : model.experts()) {
    REQUIRE(packed_bytes(source) == source.slab.bytes);
    REQUIRE(staging_bytes(source) == 0);
  }
}

TEST_CASE("a packed expert is one read of its whole slab to where its view looks for it") {
  const test::PackedExperts model(3);
  const uint64_t bytes = packed_bytes(model.experts()[0]);
  Buffer slot(bytes + 64, "slot");
  for (uint32_t expert = 0; expert < 3; ++expert) {
    const ExpertSource &source = model.experts()[expert];
    std::memset(slot.data(), 0xA5, slot.size());
    model.control->reset_counts();
    uint64_t read_bytes = 0;
    REQUIRE(load_expert(model.index, source, {}, {slot.data(), bytes}, &read_bytes).is_ok());
    REQUIRE(model.control->n_reads() == 1);
    REQUIRE(model.control->n_reads_at(source.slab.offset) == 1);
    REQUIRE(read_bytes == bytes);
    REQUIRE(test::has_packed_weights(view_expert(source, slot.data()), expert));
    REQUIRE(slot.data()[bytes] == 0xA5);
  }
}

TEST_CASE("an expert of separate matrices is packed into the same places") {
  const SyntheticModel model(SyntheticShape{{17}, 2, 24});
  const ExpertSource &source = model.sources.layers[0].experts[1];
  Buffer slot(packed_bytes(source), "slot");
  Buffer staging(staging_bytes(source), "staging");
  uint64_t read_bytes = 0;
  REQUIRE(load_expert(model.index, source, {staging.data(), staging.size()},
                      {slot.data(), slot.size()}, &read_bytes)
              .is_ok());
  REQUIRE(read_bytes == 3 * 17 * 24 * sizeof(float));
  REQUIRE(model.control->n_reads() == 3);
  REQUIRE(test::has_weights_of(view_expert(source, slot.data()), {0, 1}));
}

TEST_CASE("a slot that is too small, or a slab of another size, is refused without a read") {
  const test::PackedExperts model(1);
  ExpertSource source = model.experts()[0];
  Buffer slot(packed_bytes(source), "slot");
  const auto load = [&](size_t slot_bytes) {
    return load_expert(model.index, source, {}, {slot.data(), slot_bytes}, nullptr).code();
  };
  REQUIRE(load(slot.size() - 1) == StatusCode::kInternal);
  source.slab.bytes += kPageBytes;
  REQUIRE(load(slot.size()) == StatusCode::kInternal);
  REQUIRE(model.control->n_reads() == 0);
}

TEST_CASE("a failed read of a packed expert names its tensor") {
  const test::PackedExperts model(2);
  const ExpertSource &source = model.experts()[1];
  Buffer slot(packed_bytes(source), "slot");
  model.control->fail_at(source.slab.offset);
  const Status status = load_expert(model.index, source, {}, {slot.data(), slot.size()}, nullptr);
  REQUIRE(status.code() == StatusCode::kIo);
  REQUIRE(std::string(status.message()).find("tensor e1") != std::string::npos);
}
