// SPDX-License-Identifier: Apache-2.0
//
// What becomes of each tensor, for every option and every form of source.

#include "lib/convert/conversion_plan.h"

#include <map>

#include "tests/convert/random_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

using Kind = ConversionStep::Kind;

struct Entry {
  OutputTensor tensor;
  ConversionStep step;
};

// The plan of a model in a folder, by name of result.
class PlannedModel {
 public:
  explicit PlannedModel(const TinyModel &model,
                        const ConversionOptions &options = ConversionOptions()) {
    model.write(folder_);
    plan_ = plan_conversion(Snapshot::open(folder_.path()), options);
    REQUIRE(plan_.steps.size() == plan_.output.tensors.size());
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      entries_[plan_.output.tensors[i].name] = {plan_.output.tensors[i], plan_.steps[i]};
    }
    REQUIRE(entries_.size() == plan_.steps.size());
  }

  const ConversionPlan &plan() const { return plan_; }
  bool has(const std::string &name) const { return entries_.count(name) != 0; }
  const Entry &find(const std::string &name) const {
    INFO(name);
    REQUIRE(has(name));
    return entries_.at(name);
  }
  Kind kind(const std::string &name) const { return find(name).step.kind; }
  const WeightLayout &layout(const std::string &name, size_t part = 0) const {
    const Entry &entry = find(name);
    REQUIRE(entry.tensor.layout.has_value());
    return entry.tensor.layout->parts[part];
  }

 private:
  TempFolder folder_;
  ConversionPlan plan_;
  std::map<std::string, Entry> entries_;
};

const std::string kQueryA = "model.layers.0.self_attn.q_a_proj.weight";
const std::string kHeads = "model.layers.1.self_attn.kv_b_proj.weight";
const std::string kExpert = "model.layers.2.mlp.experts.3";
const std::string kEmbedding = "model.embed_tokens.weight";
const std::string kHead = "lm_head.weight";

}  // namespace

TEST_CASE("by default experts become INT4, dense matrices INT8, and the rest stays as it is") {
  const PlannedModel model(make_random_model());
  CHECK(model.kind(kExpert) == Kind::kExpert);
  CHECK(model.find(kExpert).step.sources.size() == 3);
  const WeightLayout &down = model.layout(kExpert, 2);
  CHECK(down.format == WeightFormat::kInt4);
  CHECK(down.columns == 16);
  CHECK(down.depth == 6);
  CHECK(down.group == 64);
  CHECK_FALSE(down.has_row_scale);
  CHECK(down.scale_type == ScaleType::kBF16);
  CHECK_FALSE(model.has(kExpert + ".down_proj.weight"));

  CHECK(model.kind(kQueryA) == Kind::kPack);
  CHECK(model.layout(kQueryA).format == WeightFormat::kInt8);
  CHECK(model.layout("model.layers.2.mlp.shared_experts.down_proj.weight").format ==
        WeightFormat::kInt8);
  for (const char *kept :
       {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight",
        "model.layers.1.mlp.gate.weight", "model.layers.1.mlp.gate.e_score_correction_bias",
        "model.layers.0.self_attn.indexer.weights_proj.weight",
        "model.layers.0.self_attn.indexer.k_norm.weight",
        "model.layers.0.self_attn.indexer.k_norm.bias", "model.layers.0.input_layernorm.weight"}) {
    INFO(kept);
    CHECK(model.kind(kept) == Kind::kCopy);
  }
  CHECK(model.plan().n_kept_matrices == 0);
  // 8 experts of 3; per layer 4 of attention, kv_b and 3 dense ones; 2 of each of 2 indexers.
  CHECK(model.plan().n_quantised_matrices == 24 + 3 * (4 + 1 + 3) + 2 * 2);
}

TEST_CASE("kv_b_proj is quantised by heads, the key half along its own axis") {
  const PlannedModel model(make_random_model());
  CHECK(model.kind(kHeads) == Kind::kHeads);
  const PackedLayout &layout = *model.find(kHeads).tensor.layout;
  CHECK(layout.form == PackedForm::kHeads);
  CHECK(layout.n_heads == 2);
  REQUIRE(layout.parts.size() == 2);
  CHECK(layout.parts[0].columns == 8);
  CHECK(layout.parts[0].depth == 6);
  CHECK(layout.parts[1].columns == 5);
  CHECK(layout.parts[1].depth == 8);
}

TEST_CASE("integer sources are repacked as they are, whatever is asked") {
  TinyModel source = make_random_model();
  store_as("INT8", &source, kQueryA);
  store_as("INT4 16", &source, kExpert + ".gate_proj.weight");
  store_as("INT4", &source, kExpert + ".up_proj.weight");
  store_as("INT8", &source, kExpert + ".down_proj.weight");
  store_as("INT8", &source, kEmbedding);
  store_as("INT8", &source, kHeads);
  ConversionOptions wide = keep_all();
  wide.experts = TargetFormat::kInt8;
  wide.embedding = TargetFormat::kBF16;
  for (const ConversionOptions &options : {ConversionOptions(), keep_all(), wide}) {
    const PlannedModel model(source, options);
    CHECK(model.layout(kQueryA).format == WeightFormat::kInt8);
    CHECK(model.layout(kQueryA).has_row_scale);
    CHECK(model.layout(kQueryA).scale_type == ScaleType::kF32);
    CHECK(model.layout(kExpert, 1).has_row_scale);
    CHECK(model.layout(kExpert, 1).format == WeightFormat::kInt4);
    CHECK(model.layout(kExpert, 2).format == WeightFormat::kInt8);
    CHECK(model.kind(kEmbedding) == Kind::kPack);
    CHECK_FALSE(model.has(kEmbedding + ".qs"));
    // Its scales do not fit the transposed half.
    CHECK(model.kind(kHeads) == Kind::kCopy);
    CHECK(model.kind(kHeads + ".qs") == Kind::kCopy);
    CHECK(model.plan().n_kept_matrices == 6);
  }
}

TEST_CASE("keep packs experts without a change and copies everything else") {
  TinyModel source = make_random_model();
  store_as("F8", &source, kExpert + ".up_proj.weight");
  store_as("F32", &source, kExpert + ".down_proj.weight");
  store_as("F8", &source, kQueryA);
  store_as("F8", &source, kHeads);
  const PlannedModel model(source, keep_all());
  CHECK(model.layout(kExpert, 0).format == WeightFormat::kBF16);
  CHECK(model.layout(kExpert, 1).format == WeightFormat::kFp8);
  CHECK(model.layout(kExpert, 2).format == WeightFormat::kF32);
  for (const std::string &name : {kQueryA, kHeads}) {
    CHECK(model.kind(name) == Kind::kCopy);
    CHECK(model.find(name).tensor.type_name == "F8_E4M3");
    CHECK(model.kind(name + "_scale_inv") == Kind::kCopy);
  }
  CHECK(model.kind(kEmbedding) == Kind::kCopy);
  CHECK(model.plan().n_quantised_matrices == 0);
}

TEST_CASE("FP8 matrices are quantised, or rounded to BF16, with their scales") {
  TinyModel source = make_random_model();
  for (const std::string &name : {kQueryA, kHeads, kExpert + ".up_proj.weight"}) {
    store_as("F8", &source, name);
  }
  const PlannedModel quantised(source);
  CHECK(quantised.kind(kQueryA) == Kind::kPack);
  CHECK(quantised.kind(kHeads) == Kind::kHeads);
  CHECK_FALSE(quantised.has(kQueryA + "_scale_inv"));
  CHECK_FALSE(quantised.has(kHeads + "_scale_inv"));
  CHECK(quantised.layout(kExpert, 1).format == WeightFormat::kInt4);

  ConversionOptions options;
  options.dense = TargetFormat::kBF16;
  const PlannedModel rounded(source, options);
  for (const std::string &name : {kQueryA, kHeads}) {
    CHECK(rounded.kind(name) == Kind::kRound);
    CHECK(rounded.find(name).tensor.type_name == "BF16");
    CHECK_FALSE(rounded.has(name + "_scale_inv"));
  }
  // BF16 already
  CHECK(rounded.kind("model.layers.0.self_attn.o_proj.weight") == Kind::kCopy);
}

TEST_CASE("embedding and head follow their own options, a tied head the embedding's") {
  TinyModel source = make_random_model();
  store_as("F32", &source, kHead);
  ConversionOptions options;
  options.embedding = TargetFormat::kInt8;
  options.head = TargetFormat::kBF16;
  const PlannedModel model(source, options);
  CHECK(model.layout(kEmbedding).format == WeightFormat::kInt8);
  CHECK(model.layout(kEmbedding).columns == 32);
  CHECK(model.kind(kHead) == Kind::kRound);

  source.config["tie_word_embeddings"] = "true";
  source.erase(kHead);
  const PlannedModel tied(source, options);
  CHECK(tied.layout(kEmbedding).format == WeightFormat::kInt8);
  CHECK_FALSE(tied.has(kHead));
}

TEST_CASE("the group that is asked for is the group of everything that is quantised") {
  for (const uint32_t group : {32u, 64u, 128u}) {
    ConversionOptions options;
    options.group = group;
    const PlannedModel model(make_random_model(), options);
    CHECK(model.layout(kExpert, 0).group == group);
    CHECK(model.layout(kQueryA).group == group);
    CHECK(model.layout(kHeads, 1).group == group);
    CHECK(model.plan().output.options.group == group);
  }
}

TEST_CASE("nothing that is stored is left out, used or not, and types keep their spelling") {
  TinyModel source = make_random_model();
  source.tensors.push_back(zeros("model.layers.3.eh_proj.weight", "BF16", {16, 32}));
  source.tensors.push_back(
      zeros("model.layers.3.mlp.experts.0.up_proj.weight", "F8_E5M2", {6, 16}));
  source.tensors.push_back(zeros("rope.counts", "I32", {3, 1, 2}));
  source.tensors.push_back(zeros("scalar", "BOOL", {}));
  const PlannedModel model(source);
  for (const auto &[name, type] : std::map<std::string, std::string>{
           {"model.layers.3.eh_proj.weight", "BF16"},
           {"model.layers.3.mlp.experts.0.up_proj.weight", "F8_E5M2"},
           {"rope.counts", "I32"},
           {"scalar", "BOOL"}}) {
    const Entry &entry = model.find(name);
    CHECK(entry.step.kind == Kind::kCopy);
    CHECK(entry.tensor.type_name == type);
    CHECK(entry.tensor.shape == source.find(name).shape);
    CHECK(entry.tensor.bytes == source.find(name).data.size());
  }
  uint64_t n_taken = 0;
  for (const ConversionStep &step : model.plan().steps) {
    n_taken += step.kind == Kind::kCopy ? 1 : step.sources.size();
  }
  CHECK(n_taken == source.tensors.size());
}

TEST_CASE("packed tensors stand first, and the same source gives the same plan") {
  const TinyModel source = make_random_model();
  const PlannedModel first(source), second(source);
  bool had_plain = false;
  for (size_t i = 0; i < first.plan().steps.size(); ++i) {
    const OutputTensor &tensor = first.plan().output.tensors[i];
    CHECK(tensor.name == second.plan().output.tensors[i].name);
    had_plain = had_plain || !tensor.layout;
    CHECK((!had_plain || !tensor.layout));
    if (tensor.layout) CHECK(tensor.bytes % kPackedAlignment == 0);
  }
}

TEST_CASE("stamps of the container go along with what is copied") {
  TinyModel source = make_random_model();
  store_as("container F8", &source, kQueryA);
  TempFolder folder;
  folder.write("config.json", source.config_text());
  folder.write("model.safetensors",
               safetensors_file(source.tensors, "{\"colibri.fmt\":\"{\\\"" + kQueryA +
                                                    "\\\":\\\"fp8-e4m3-b128\\\"}\"}"));
  const ConversionPlan plan = plan_conversion(Snapshot::open(folder.path()), keep_all());
  size_t n_stamped = 0;
  for (const OutputTensor &tensor : plan.output.tensors) {
    if (tensor.stamp.empty()) continue;
    ++n_stamped;
    CHECK(tensor.name == kQueryA);
    CHECK(tensor.stamp == "fp8-e4m3-b128");
  }
  CHECK(n_stamped == 1);
}

TEST_CASE("facts and side files come from the source, options as they were asked") {
  TempFolder folder;
  make_random_model().write(folder);
  folder.write("tokenizer.json", "{}");
  const Snapshot source = Snapshot::open(folder.path());
  ConversionOptions options;
  options.search = ScaleSearch::kAbsmax;
  options.head = TargetFormat::kBF16;
  const PackedWriterPlan plan = plan_conversion(source, options).output;
  CHECK(plan.source_identity == source.index().identity_hash());
  CHECK(plan.model_type == "glm_moe_dsa");
  CHECK((plan.options == PackedOptions{"int4", "int8", "keep", "bf16", 64, "absmax"}));
  REQUIRE(plan.files.size() == 2);
  CHECK(plan.files[0].first == "config.json");
  CHECK(plan.files[1].first == "tokenizer.json");
}

}  // namespace colibri::test
