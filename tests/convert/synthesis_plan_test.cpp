// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/synthesis_plan.h"

#include <cmath>
#include <map>

#include "lib/convert/random_codes.h"
#include "lib/convert/synthesis_shapes.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;

ModelConfig config_of(const std::string &name, uint32_t n_layers) {
  return synthesis_config(
      synthesis_config_text(find_synthesis_shape(name), {n_layers, 0.0, 0.4, 1}));
}

struct Entry {
  OutputTensor tensor;
  SynthesisStep step;
};

std::map<std::string, Entry> entries_of(const SynthesisPlan &plan) {
  REQUIRE(plan.steps.size() == plan.output.tensors.size());
  std::map<std::string, Entry> entries;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const bool is_new =
        entries.emplace(plan.output.tensors[i].name, Entry{plan.output.tensors[i], plan.steps[i]})
            .second;
    REQUIRE(is_new);
  }
  return entries;
}

TEST_CASE("an expert of glm-5.2 has the bytes of a converted one") {
  const auto entries = entries_of(plan_synthesis(config_of("glm-5.2", 2)));
  for (const char *name : {"model.layers.0.mlp.experts.0", "model.layers.1.mlp.experts.255"}) {
    const OutputTensor &expert = entries.at(name).tensor;
    // 3 * 6144 * 2048 weights in half a byte, and one BF16 scale for 64 of them.
    CHECK(expert.bytes == 18'874'368 + 1'179'648);
    REQUIRE(expert.layout.has_value());
    CHECK(expert.layout->form == PackedForm::kExpert);
  }
  CHECK(entries.count("model.layers.1.mlp.experts.256") == 0);
  CHECK(entries.count("model.layers.2.mlp.experts.0") == 0);
}

TEST_CASE("formats are those of a conversion: INT4 experts, INT8 dense, the sensitive ones finer") {
  const auto entries = entries_of(plan_synthesis(config_of("glm-5.2", 1)));
  const auto type_of = [&](const char *name) { return entries.at(name).tensor.type_name; };
  CHECK(type_of("model.embed_tokens.weight") == "BF16");
  CHECK(type_of("model.layers.0.mlp.gate.weight") == "F32");
  CHECK(type_of("model.layers.0.mlp.gate.e_score_correction_bias") == "F32");
  CHECK(type_of("model.layers.0.input_layernorm.weight") == "F32");
  CHECK(type_of("model.layers.0.self_attn.indexer.weights_proj.weight") == "BF16");
  for (const char *name : {"lm_head.weight", "model.layers.0.self_attn.o_proj.weight",
                           "model.layers.0.self_attn.kv_b_proj.weight",
                           "model.layers.0.mlp.shared_experts.down_proj.weight"}) {
    INFO(name);
    REQUIRE(entries.at(name).tensor.layout.has_value());
    for (const WeightLayout &part : entries.at(name).tensor.layout->parts) {
      CHECK(part.format == WeightFormat::kInt8);
      CHECK(part.group == 64);
      CHECK(part.scale_type == ScaleType::kBF16);
    }
  }
  CHECK(entries.at("model.layers.0.self_attn.kv_b_proj.weight").tensor.layout->form ==
        PackedForm::kHeads);
}

TEST_CASE("packed tensors stand in front, and fill an estimate of the shape's bytes") {
  const SynthesisPlan plan = plan_synthesis(config_of("qwen3-30b", 3));
  bool had_plain = false;
  uint64_t bytes = 0;
  for (const OutputTensor &tensor : plan.output.tensors) {
    CHECK_FALSE((had_plain && tensor.layout));
    had_plain = had_plain || !tensor.layout;
    bytes += tensor.bytes;
  }
  const double experts = 3 * 128 * 3 * 2048.0 * 768.0 * (0.5 + 2.0 / 64);
  const double vocabulary = 151936.0 * 2048.0 * (2 + 1 + 2.0 / 64);
  CHECK(static_cast<double>(bytes) == Approx(experts + vocabulary + 3 * 20e6).epsilon(0.01));
}

TEST_CASE("what layers add in all does not depend on their number") {
  const char *name = "model.layers.0.self_attn.o_proj.weight";
  const auto weight_of = [&](uint32_t n_layers) {
    const Entry entry = entries_of(plan_synthesis(config_of("colibri-tiny", n_layers))).at(name);
    return static_cast<double>(entry.step.values[0]) * code_deviation(WeightFormat::kInt8);
  };
  CHECK(weight_of(2) / weight_of(32) == Approx(4.0));
  // 256 inputs of at most 1: outputs of at most 0.1 / sqrt(4).
  CHECK(weight_of(2) * std::sqrt(256.0) == Approx(0.05));
}

}  // namespace
