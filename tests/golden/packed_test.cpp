// SPDX-License-Identifier: Apache-2.0
//
// The golden models in packed form. Converting with every matrix kept moves weights and changes
// none, so the results are those of the original, to the bit.

#include <cstring>

#include "lib/convert/converter.h"
#include "tests/base/temporary_folder.h"
#include "tests/golden/engine.h"
#include "tests/golden/golden_checks.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

constexpr int kLongestPrompt = 3;  // 97 tokens

// The packed form of a case, in a folder that disappears at the end.
class PackedCase {
 public:
  explicit PackedCase(const GoldenCase &golden) {
    ConversionOptions options;
    options.experts = options.dense = options.embedding = options.head = TargetFormat::kKeep;
    convert_snapshot(golden.path(), path(), options);
  }
  std::string path() const { return folder_.path() + "/packed"; }

 private:
  TemporaryFolder folder_;
};

void check_every_packed_case(void (*check)(const GoldenCase &golden, const std::string &path)) {
  for (const std::string &name : golden_case_names()) {
    const GoldenCase golden(name);
    const PackedCase packed(golden);
    check(golden, packed.path());
  }
}

}  // namespace

TEST_CASE("packed: float logits, routes and selections equal the reference") {
  check_every_packed_case(check_passes);
}

TEST_CASE("packed: the residual stream equals the reference after every layer") {
  check_every_packed_case(check_hidden);
}

TEST_CASE("packed: greedy continuations equal the reference") {
  check_every_packed_case(check_continuations);
}

TEST_CASE("packed: the latent norms use the epsilon that the model says") {
  check_every_packed_case(check_latent_eps);
}

TEST_CASE("every expert of a packed golden model is one packed tensor") {
  for (const std::string &name : golden_case_names()) {
    const GoldenCase golden(name);
    const PackedCase packed(golden);
    const Snapshot original = Snapshot::open(golden.path());
    const Snapshot snapshot = Snapshot::open(packed.path());
    INFO(name);
    CHECK(snapshot.index().is_packed());
    CHECK(snapshot.index().manifest()->source_identity == original.index().identity_hash());
    CHECK(snapshot.warnings() == original.warnings());
    CHECK(snapshot.config() == original.config());
    size_t n_experts = 0;
    for (const LayerSources &layer : snapshot.sources().layers) {
      for (const ExpertSource &expert : layer.experts) {
        CHECK(expert.slab.bytes == ExpertCache::packed_expert_bytes(expert));
        ++n_experts;
      }
    }
    CHECK(n_experts > 0);
    CHECK(ExpertCache::staging_bytes(snapshot.sources(), 4) == 0);
    CHECK(ExpertCache::all_packed_experts_bytes(snapshot.sources()) ==
          ExpertCache::all_packed_experts_bytes(original.sources()));
  }
}

TEST_CASE("packed and original snapshots give the same bytes of logits in both modes") {
  for (const std::string &name : golden_case_names()) {
    const GoldenCase golden(name);
    const PackedCase packed(golden);
    for (const ActivationMode mode : {ActivationMode::kFloat, ActivationMode::kInteger}) {
      EngineOptions options;
      options.activations = mode;
      Engine original(golden.path(), options);
      Engine engine(packed.path(), options);
      for (int i = 0; i <= kLongestPrompt; ++i) {
        INFO(name << " mode " << static_cast<int>(mode) << " prompt " << i);
        const std::vector<float> expected = original.run(golden.prompt(i), 0, 0);
        const std::vector<float> logits = engine.run(golden.prompt(i), 0, 0);
        REQUIRE(logits.size() == expected.size());
        CHECK(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace colibri::test
