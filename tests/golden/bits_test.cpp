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

constexpr int kShortPrompt = 1;    // 7 tokens
constexpr int kMediumPrompt = 2;   // 33 tokens
constexpr int kLongestPrompt = 3;  // 97 tokens

// The reference kernels are slow: they run a shorter prompt where many runs are needed.
int prompt_for(const std::string &kernel_set) {
  return kernel_set == "ref" ? kMediumPrompt : kLongestPrompt;
}

}  // namespace

TEST_CASE("kernel sets and chunk sizes give the same bytes") {
  for (const std::string &name : golden_case_names()) {
    const GoldenCase golden(name);
    for (const ActivationMode mode : {ActivationMode::kFloat, ActivationMode::kInteger}) {
      EngineOptions options;
      options.activations = mode;
      options.kernel_set = "ref";
      Engine reference(golden.path(), options);
      for (const std::string &kernel_set : runnable_kernel_sets()) {
        const std::vector<int32_t> prompt = golden.prompt(prompt_for(kernel_set));
        const std::vector<float> expected = reference.run(prompt, 0, 0);
        options.kernel_set = kernel_set;
        Engine engine(golden.path(), options);
        for (const uint32_t chunk : {1u, 3u, 7u, 0u}) {
          INFO(name << " " << kernel_set << " chunk " << chunk << " mode "
                    << static_cast<int>(mode));
          CHECK(have_equal_bytes(engine.run(prompt, 0, chunk), expected));
        }
      }
    }
  }
}

TEST_CASE("thread counts and expert budgets give the same bytes for every kernel set") {
  for (const std::string &name : golden_case_names()) {
    const GoldenCase golden(name);
    for (const std::string &kernel_set : runnable_kernel_sets()) {
      const std::vector<int32_t> prompt =
          golden.prompt(kernel_set == "ref" ? kShortPrompt : kMediumPrompt);
      for (const ActivationMode mode : {ActivationMode::kFloat, ActivationMode::kInteger}) {
        EngineOptions options;
        options.kernel_set = kernel_set;
        options.activations = mode;
        Engine reference(golden.path(), options);
        const std::vector<float> expected = reference.run(prompt, 0, 0);
        const uint64_t one = reference.largest_expert_bytes();
        const uint64_t budgets[] = {one, one * reference.config().n_experts_per_token, one * 11, 0};
        for (const uint32_t n_threads : {1u, 2u, 5u}) {
          for (const uint64_t budget : budgets) {
            options.n_threads = n_threads;
            options.expert_budget_bytes = budget;
            Engine engine(golden.path(), options);
            INFO(name << " " << kernel_set << " threads " << n_threads << " budget " << budget
                      << " mode " << static_cast<int>(mode));
            CHECK(have_equal_bytes(engine.run(prompt, 0, n_threads == 2 ? 3 : 0), expected));
            if (budget > 0) CHECK(engine.cache().stats().resident_bytes <= budget);
          }
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

TEST_CASE("every number format of keys and values gives the same bytes for all sets and chunks") {
  for (const std::string &name : golden_case_names()) {
    const GoldenCase golden(name);
    for (const KvType type : {KvType::kBF16, KvType::kF16}) {
      EngineOptions options;
      options.kv_type = type;
      options.kernel_set = "ref";
      const std::vector<int32_t> prompt = golden.prompt(kMediumPrompt);
      const std::vector<float> expected = Engine(golden.path(), options).run(prompt, 0, 0);
      for (const std::string &kernel_set : runnable_kernel_sets()) {
        options.kernel_set = kernel_set;
        Engine engine(golden.path(), options);
        for (const uint32_t chunk : {1u, 7u, 0u}) {
          INFO(name << " " << kernel_set << " chunk " << chunk << " " << kv_type_name(type));
          CHECK(have_equal_bytes(engine.run(prompt, 0, chunk), expected));
        }
      }
    }
  }
}

TEST_CASE("rings of windowed layers give the bytes of slots that keep everything") {
  for (const char *name : {"gpt_oss", "gpt_oss-bf16"}) {
    const GoldenCase golden(name);
    const std::vector<int32_t> prompt = golden.prompt(kLongestPrompt);
    EngineOptions options;
    Engine whole(golden.path(), options);
    REQUIRE_FALSE(whole.model().kv_layout().layer(0).is_ring);
    const std::vector<float> expected = whole.run(prompt, 0, 0);
    for (const uint32_t max_rows : {1u, 3u, 40u}) {
      options.max_rows = max_rows;
      Engine engine(golden.path(), options);
      INFO(name << " max_rows " << max_rows);
      REQUIRE(engine.model().kv_layout().layer(0).is_ring);
      CHECK(have_equal_bytes(engine.run(prompt, 0, 0), expected));
      // A short sequence behind a long one, and a long one again.
      const std::vector<int32_t> start(prompt.begin(), prompt.begin() + 20);
      engine.run(start, 0, 0);
      CHECK(have_equal_bytes(engine.run(prompt, 0, 0), expected));
    }
  }
}

}  // namespace colibri::test
