// SPDX-License-Identifier: Apache-2.0
//
// Experts in tensors of their own and in tensors that hold all of a layer: which bytes are whose,
// and what is refused.

#include "lib/snapshot/expert_sources.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "lib/snapshot/model_tensors.h"
#include "lib/snapshot/tensor_rules.h"
#include "tests/snapshot/golden_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

// Models in one file, resolved.
struct Resolved {
  TensorIndex index;
  ModelConfig config;
  ModelSources sources;
};

Resolved resolve(const TinyModel &model) {
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(memory_reader("model.safetensors", safetensors_file(model.tensors)));
  TensorIndex index = TensorIndex::from_readers(std::move(readers));
  const JsonDocument document = JsonDocument::parse(model.config_text(), "config.json");
  ModelConfig config = parse_model_config(document.root(), "config.json");
  ModelSources sources = resolve_model_tensors(index, config, "");
  return {std::move(index), std::move(config), std::move(sources)};
}

void expect_refused(const TinyModel &model, StatusCode code,
                    std::initializer_list<std::string_view> parts) {
  expect_failure(code, parts, [&] { resolve(model); });
}

std::string experts_of(int layer) {
  return "model.layers." + std::to_string(layer) + ".mlp.experts.";
}

// Fills the routed experts with numbers that tell them apart.
void number_experts(TinyModel *model) {
  uint8_t next = 1;
  for (TestTensor &tensor : model->tensors) {
    if (tensor.name.find(".experts.") == std::string::npos) continue;
    for (char &byte : tensor.data) byte = static_cast<char>(next++ & 0x3f);
  }
}

std::string read_bytes(const Resolved &model, const TensorSpan &span) {
  std::string bytes(span.bytes, '\0');
  const Reader &reader = *model.index.files()[span.file].reader;
  throw_if_failed(reader.read_at(span.offset, bytes.data(), bytes.size()));
  return bytes;
}

const std::vector<const char *> kMxFp4Names = {"gate_up_proj_blocks", "gate_up_proj_scales",
                                               "gate_up_proj_bias",   "down_proj_blocks",
                                               "down_proj_scales",    "down_proj_bias"};

}  // namespace

TEST_CASE("fused halves are the same weights as separate matrices, gate first") {
  TinyModel separate;
  number_experts(&separate);
  TinyModel fused = separate;
  fused.fuse_experts(1);
  fused.fuse_experts(2);
  const Resolved a = resolve(separate);
  const Resolved b = resolve(fused);
  CHECK(b.sources.ignored_tensors.empty());
  for (const size_t layer : {1u, 2u}) {
    REQUIRE(b.sources.layers[layer].experts.size() == 4);
    for (size_t e = 0; e < 4; ++e) {
      const ExpertSource &wanted = a.sources.layers[layer].experts[e];
      const ExpertSource &got = b.sources.layers[layer].experts[e];
      for (const auto field : {&ExpertSource::gate, &ExpertSource::up, &ExpertSource::down}) {
        CHECK((got.*field).format == StoredFormat::kBF16);
        CHECK((got.*field).rows == (wanted.*field).rows);
        CHECK((got.*field).columns == (wanted.*field).columns);
        CHECK((got.*field).row_step == 1);
        CHECK(read_bytes(b, (got.*field).values) == read_bytes(a, (wanted.*field).values));
      }
    }
  }
}

TEST_CASE("one layer may be fused and another not, one layer may not be both [L-20]") {
  TinyModel model;
  model.fuse_experts(2);
  CHECK(resolve(model).sources.ignored_tensors.empty());
  model.tensors.push_back(zeros(experts_of(2) + "3.up_proj.weight", "BF16", {6, 16}));
  expect_refused(
      model, StatusCode::kFormat,
      {"layer 2", "two forms", experts_of(2) + "3.up_proj.weight is separate", "is fused"});
}

TEST_CASE("fused tensors of another number or width of experts are refused [L-20]") {
  TinyModel model;
  model.fuse_experts(1);
  model.fuse_experts(2);
  model.config["n_shared_experts"] = "0";
  TinyModel wider = model;
  wider.config["moe_intermediate_size"] = "8";
  expect_refused(wider, StatusCode::kFormat,
                 {experts_of(1) + "gate_up_proj", "[4, 12, 16]", "[4, 16, 16]"});
  model.config["n_routed_experts"] = "8";
  for (const char *layer : {"1", "2"}) {
    const std::string gate = "model.layers." + std::string(layer) + ".mlp.gate.";
    model.find(gate + "weight") = zeros(gate + "weight", "BF16", {8, 16});
    TestTensor &bias = model.find(gate + "e_score_correction_bias");
    bias = zeros(bias.name, "F32", {8});
  }
  expect_refused(model, StatusCode::kFormat,
                 {experts_of(1) + "gate_up_proj", "[4, 12, 16]", "[8, 12, 16]"});
}

TEST_CASE("a part of fused experts that is absent is missed by name [L-20]") {
  for (const char *part : {"gate_up_proj", "down_proj"}) {
    TinyModel model;
    model.fuse_experts(2);
    model.erase(experts_of(2) + part);
    expect_refused(model, StatusCode::kIncomplete, {"1 of ", "first " + experts_of(2) + part});
  }
}

TEST_CASE("tensors of all experts that nothing computes with are refused, not dropped [L-20]") {
  TinyModel model;
  model.fuse_experts(2);
  model.tensors.push_back(zeros(experts_of(2) + "gate_up_proj_bias", "BF16", {4, 12}));
  expect_refused(model, StatusCode::kFormat, {experts_of(2) + "gate_up_proj_bias", "no use"});
  model = TinyModel();
  model.tensors.push_back(zeros(experts_of(0) + "down_proj", "BF16", {4, 16, 6}));
  expect_refused(model, StatusCode::kFormat, {experts_of(0) + "down_proj", "layer 0 is dense"});
}

TEST_CASE("fused experts in a form that is not read are refused by name") {
  TinyModel model;
  model.fuse_experts(2);
  TestTensor &tensor = model.find(experts_of(2) + "gate_up_proj");
  tensor = zeros(tensor.name, "F8_E4M3", {4, 12, 16});
  expect_refused(model, StatusCode::kUnsupported, {tensor.name, "F8_E4M3"});
  tensor = zeros(tensor.name, "BF16", {4, 12, 16});
  model.tensors.push_back(zeros(tensor.name + "_scale_inv", "F32", {4, 1, 1}));
  expect_refused(model, StatusCode::kFormat, {experts_of(2) + "gate_up_proj", "_scale_inv"});
}

TEST_CASE("mxfp4 experts: gate and up alternate in one span, codes and exponents go together") {
  const Resolved model = resolve(read_golden_model("gpt_oss"));
  CHECK(model.sources.ignored_tensors.empty());
  const TensorInfo &blocks = *model.index.find(experts_of(1) + "gate_up_proj_blocks");
  const TensorInfo &scales = *model.index.find(experts_of(1) + "gate_up_proj_scales");
  const TensorInfo &bias = *model.index.find(experts_of(1) + "gate_up_proj_bias");
  const ExpertSource &expert = model.sources.layers[1].experts[5];
  CHECK(expert.gate.format == StoredFormat::kMxFp4);
  CHECK(expert.gate.name == experts_of(1) + "gate_up_proj");
  CHECK(values_name(expert.gate) == experts_of(1) + "gate_up_proj_blocks");
  CHECK(scales_name(model.index, expert.gate) == experts_of(1) + "gate_up_proj_scales");
  CHECK(expert.gate.rows == 64);
  CHECK(expert.gate.columns == 96);
  CHECK(expert.gate.first_row == 0);
  CHECK(expert.up.first_row == 1);
  CHECK(expert.gate.row_step == 2);
  CHECK(expert.gate.stored_rows == 128);
  CHECK(expert.gate.values == TensorSpan{blocks.file, blocks.offset + 5 * 128 * 48, 128 * 48});
  CHECK(expert.gate.scales == TensorSpan{scales.file, scales.offset + 5 * 128 * 3, 128 * 3});
  CHECK(expert.up.values == expert.gate.values);
  CHECK(expert.up.scales == expert.gate.scales);
  CHECK(expert.gate.scale_type == TensorType::kF8E8M0);
  CHECK(scale_columns(expert.gate) == 3);
  CHECK(scale_rows(expert.gate) == 128);
  CHECK(expert.down.rows == 96);
  CHECK(expert.down.columns == 64);
  CHECK(expert.down.row_step == 1);
  CHECK(expert.down.values.bytes == 96 * 32);
  CHECK(expert.gate_bias.values == TensorSpan{bias.file, bias.offset + 5 * 256, 256});
  CHECK(expert.up_bias.first_row == 1);
  CHECK(expert.up_bias.rows == 64);
  CHECK(expert.up_bias.columns == 1);
  CHECK(expert.down_bias.values.bytes == 96 * 2);
  CHECK(describe_format(expert.gate) == "mxfp4");
}

TEST_CASE("plain alternating experts stand inputs first") {
  const Resolved model = resolve(read_golden_model("gpt_oss-bf16"));
  CHECK(model.sources.ignored_tensors.empty());
  const ExpertSource &expert = model.sources.layers[0].experts[2];
  CHECK(expert.gate.format == StoredFormat::kBF16);
  CHECK(expert.gate.is_transposed);
  CHECK(expert.gate.stored_rows == 96);
  CHECK(expert.gate.rows == 48);
  CHECK(expert.gate.row_step == 2);
  CHECK(expert.up.first_row == 1);
  CHECK(expert.gate.values.bytes == 64 * 96 * 2);
  CHECK(expert.down.is_transposed);
  CHECK(expert.down.stored_rows == 64);
  CHECK(expert.down.columns == 48);
  CHECK_FALSE(expert.up_bias.is_transposed);
}

TEST_CASE("mxfp4 whose scales do not fit its codes is refused [C-19]") {
  const TinyModel whole = read_golden_model("gpt_oss");
  const std::string scales = experts_of(1) + "gate_up_proj_scales";
  TinyModel model = whole;
  model.find(scales) = zeros(scales, "U8", {8, 128, 2});
  expect_refused(model, StatusCode::kFormat, {scales, "[8, 128, 2]", "[8, 128, 3]"});
  model = whole;
  model.find(scales) = zeros(scales, "BF16", {8, 128, 3});
  expect_refused(model, StatusCode::kUnsupported, {scales, "BF16"});
  model = whole;
  model.config["intermediate_size"] = "80";
  expect_refused(model, StatusCode::kFormat, {"gate_up_proj_blocks", "[8, 128, 3, 16]"});
}

TEST_CASE("every tensor of the experts of gpt_oss is missed when it is absent [L-20]") {
  const TinyModel whole = read_golden_model("gpt_oss");
  for (const char *part : kMxFp4Names) {
    TinyModel model = whole;
    model.erase(experts_of(2) + part);
    expect_refused(model, StatusCode::kIncomplete, {"1 of ", "first " + experts_of(2) + part});
  }
  TinyModel model = whole;
  for (const char *part : kMxFp4Names) model.erase(experts_of(2) + part);
  expect_refused(model, StatusCode::kIncomplete,
                 {"6 of ", "first " + experts_of(2) + "gate_up_proj_blocks"});
}

TEST_CASE("every tensor of every golden model is used or listed as ignored [L-20]") {
  for (const char *folder :
       {"deepseek_v3-yarn", "deepseek_v32", "glm4_moe", "glm4_moe_lite", "gpt_oss", "gpt_oss-bf16",
        "mixtral", "olmoe", "qwen2_moe", "qwen3_moe", "qwen3_moe-nonorm-tied"}) {
    INFO(folder);
    const TinyModel golden = read_golden_model(folder);
    const Resolved model = resolve(golden);
    std::set<std::string> used;
    visit_sources(model.sources, [&](const WeightSource &source) {
      used.insert(values_name(source));
      used.insert(scales_name(model.index, source));
    });
    used.erase("");
    for (const std::string &name : model.sources.ignored_tensors) {
      CHECK(used.count(name) == 0);
      CHECK(name.rfind("model.layers." + std::to_string(model.config.n_layers) + ".", 0) == 0);
      used.insert(name);
    }
    CHECK(used.size() == golden.tensors.size());
  }
}

TEST_CASE("every needed tensor of every golden model is missed when it is absent [L-20]") {
  for (const char *folder : {"deepseek_v32", "glm4_moe", "mixtral", "olmoe", "qwen2_moe"}) {
    const TinyModel whole = read_golden_model(folder);
    const std::vector<std::string> ignored = resolve(whole).sources.ignored_tensors;
    for (size_t i = 0; i < whole.tensors.size(); i += 7) {
      const std::string &name = whole.tensors[i].name;
      if (std::find(ignored.begin(), ignored.end(), name) != ignored.end()) continue;
      INFO(folder << " without " << name);
      TinyModel model = whole;
      model.erase(name);
      expect_refused(model, StatusCode::kIncomplete, {"1 of ", "first " + name});
    }
  }
}

TEST_CASE("no field of a layer is filled by two rules, in any golden model") {
  for (const char *folder : {"deepseek_v3-yarn", "deepseek_v32", "glm4_moe", "glm4_moe_lite",
                             "gpt_oss", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe"}) {
    const Resolved model = resolve(read_golden_model(folder));
    for (uint32_t layer = 0; layer < model.config.n_layers; ++layer) {
      std::vector<WeightSource LayerSources::*> fields;
      for (const TensorRule &rule : layer_rules()) {
        if (!rule.applies(model.config, layer)) continue;
        CHECK(std::find(fields.begin(), fields.end(), rule.field) == fields.end());
        fields.push_back(rule.field);
      }
    }
  }
}

TEST_CASE("mixtral is read in the spelling of newer files too, separate and fused") {
  TinyModel model = read_golden_model("mixtral");
  const std::map<std::string, std::string> parts = {
      {"w1.", "gate_proj."}, {"w3.", "up_proj."}, {"w2.", "down_proj."}};
  for (TestTensor &tensor : model.tensors) {
    const size_t at = tensor.name.find("block_sparse_moe.");
    if (at == std::string::npos) continue;
    tensor.name.replace(at, std::strlen("block_sparse_moe."), "mlp.");
    for (const auto &[old_part, new_part] : parts) {
      const size_t part = tensor.name.find(old_part);
      if (part != std::string::npos) tensor.name.replace(part, old_part.size(), new_part);
    }
  }
  const Resolved newer = resolve(model);
  CHECK(newer.sources.ignored_tensors.empty());
  CHECK(newer.sources.names == &find_family("mixtral")->names[1]);
  CHECK(newer.sources.layers[0].experts[3].up.name == experts_of(0) + "3.up_proj.weight");
  const Resolved usual = resolve(read_golden_model("mixtral"));
  CHECK(read_bytes(newer, newer.sources.layers[0].experts[3].down.values) ==
        read_bytes(usual, usual.sources.layers[0].experts[3].down.values));
}

TEST_CASE("a spelling that is mixed misses the first name of the chosen one") {
  TinyModel model = read_golden_model("mixtral");
  for (TestTensor &tensor : model.tensors) {
    if (tensor.name == "model.layers.1.block_sparse_moe.gate.weight") {
      tensor.name = "model.layers.1.mlp.gate.weight";
    }
  }
  expect_refused(model, StatusCode::kIncomplete,
                 {"1 of ", "first model.layers.1.block_sparse_moe.gate.weight"});
}

TEST_CASE("a vocabulary that is wider than any tokenizer's is the config's [L-18]") {
  TinyModel model = read_golden_model("olmoe");
  model.config["vocab_size"] = "304";
  for (const char *name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    model.find(name) = zeros(name, "F32", {304, 64});
  }
  CHECK(resolve(model).sources.head.rows == 304);
  model.find("lm_head.weight") = zeros("lm_head.weight", "F32", {300, 64});
  expect_refused(model, StatusCode::kFormat, {"lm_head.weight", "[300, 64]", "[304, 64]"});
}

}  // namespace colibri::test
