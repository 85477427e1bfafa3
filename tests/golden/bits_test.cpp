// SPDX-License-Identifier: Apache-2.0
//
// The bits contract below the C ABI: logits of a prompt are the same bytes for every kernel set,
// chunk size, number of threads and expert budget, in both activation modes.

#include <cstring>

#include "tests/golden/engine.h"
#include "tests/golden/golden_case.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

bool have_equal_bytes(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr int kLongestPrompt = 3;

}  // namespace

TEST_CASE("kernel sets and chunk sizes give the same bytes") {
  for (const std::string &name : golden_case_names()) {
    const GoldenCase golden(name);
    for (const ActivationMode mode : {ActivationMode::kFloat, ActivationMode::kInteger}) {
      EngineOptions options;
      options.activations = mode;
      options.kernel_set = "ref";
      const std::vector<float> expected =
          Engine(golden.path(), options).run(golden.prompt(kLongestPrompt), 0, 0);
      for (const std::string &kernel_set : runnable_kernel_sets()) {
        options.kernel_set = kernel_set;
        Engine engine(golden.path(), options);
        for (const uint32_t chunk : {1u, 3u, 7u, 0u}) {
          if (kernel_set == "ref" && chunk != 7)
            continue;  // slow; one chunk size shows that it is invariant too
          INFO(name << " " << kernel_set << " chunk " << chunk << " mode "
                    << static_cast<int>(mode));
          CHECK(have_equal_bytes(engine.run(golden.prompt(kLongestPrompt), 0, chunk), expected));
        }
      }
    }
  }
}

TEST_CASE("thread counts and expert budgets give the same bytes") {
  for (const std::string &name : golden_case_names()) {
    const GoldenCase golden(name);
    for (const ActivationMode mode : {ActivationMode::kFloat, ActivationMode::kInteger}) {
      EngineOptions options;
      options.activations = mode;
      Engine reference(golden.path(), options);
      const std::vector<float> expected = reference.run(golden.prompt(kLongestPrompt), 0, 0);
      const uint64_t one = reference.largest_expert_bytes();
      for (const uint32_t n_threads : {1u, 2u, 5u}) {
        for (const uint64_t budget :
             {one, one * reference.config().n_experts_per_token, one * 11, uint64_t{0}}) {
          options.n_threads = n_threads;
          options.expert_budget_bytes = budget;
          Engine engine(golden.path(), options);
          INFO(name << " threads " << n_threads << " budget " << budget << " mode "
                    << static_cast<int>(mode));
          CHECK(have_equal_bytes(
              engine.run(golden.prompt(kLongestPrompt), 0, n_threads == 2 ? 3 : 0), expected));
          if (budget > 0) CHECK(engine.cache().stats().resident_bytes <= budget);
        }
      }
    }
  }
}

TEST_CASE("a pass repeated fifty times gives the same bytes") {
  const GoldenCase golden("glm_moe_dsa-sparse");
  EngineOptions options;
  options.n_threads = 2;
  options.activations = ActivationMode::kInteger;
  Engine engine(golden.path(), options);
  const std::vector<float> expected = engine.run(golden.prompt(2), 0, 0);
  for (int i = 0; i < 50; ++i)
    REQUIRE(have_equal_bytes(engine.run(golden.prompt(2), 0, 0), expected));
}

TEST_CASE("one reading of each expert serves a whole chunk") {
  const GoldenCase golden("glm_moe_dsa-sparse");
  Engine probe(golden.path(), {});
  EngineOptions options;
  options.expert_budget_bytes = probe.largest_expert_bytes() * 2;
  Engine engine(golden.path(), options);
  engine.run(golden.prompt(kLongestPrompt), 0, 0);
  const ExpertCacheStats stats = engine.cache().stats();
  uint64_t n_moe_layers = 0;
  for (const FeedForwardKind kind : engine.config().feed_forward_kinds)
    n_moe_layers += kind == FeedForwardKind::kMoe;
  CHECK(stats.reads <= n_moe_layers * engine.config().n_experts);
}

}  // namespace colibri::test
