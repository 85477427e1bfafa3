// SPDX-License-Identifier: Apache-2.0
//
// Shapes and forms of the tensors a model needs: what is found, the errors, what is ignored.

#include "lib/snapshot/model_tensors.h"

#include <algorithm>

#include "tests/snapshot/packed_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

// Index and config of a tiny model as it is.
struct Opened {
  TensorIndex index;
  ModelConfig config;
};

Opened open(const TinyModel &model, const std::string &file) {
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(memory_reader("model.safetensors", file));
  const JsonDocument document = JsonDocument::parse(model.config_text(), "config.json");
  return {TensorIndex::from_readers(std::move(readers)),
          parse_model_config(document.root(), "config.json")};
}

ModelSources resolve(const TinyModel &model) {
  const Opened opened = open(model, safetensors_file(model.tensors));
  return resolve_model_tensors(opened.index, opened.config, "");
}

ModelSources resolve(const PackedModel &model) {
  const Opened opened = open(model.tiny, model.shard().file());
  return resolve_model_tensors(opened.index, opened.config, "");
}

template <typename Model>
void expect_refused(const Model &model, StatusCode code,
                    std::initializer_list<std::string_view> parts) {
  expect_failure(code, parts, [&] { resolve(model); });
}

const std::string kExpertPrefix = "model.layers.2.mlp.experts.";

}  // namespace

TEST_CASE("every needed tensor is found and has its place") {
  const ModelSources sources = resolve(TinyModel());
  REQUIRE(sources.layers.size() == 3);
  CHECK(sources.embedding.rows == 32);
  CHECK(sources.head.name == "lm_head.weight");
  const LayerSources &dense = sources.layers[0];
  CHECK(dense.kv_a.rows == 12);
  CHECK(dense.kv_b.rows == 22);
  CHECK(dense.output.columns == 10);
  CHECK(dense.dense_gate.name == "model.layers.0.mlp.gate_proj.weight");
  CHECK(dense.dense_down.columns == 24);
  CHECK(dense.index_weights.rows == 2);
  CHECK(dense.experts.empty());
  CHECK_FALSE(dense.router.is_present());
  const LayerSources &moe = sources.layers[2];
  CHECK(moe.dense_gate.name == "model.layers.2.mlp.shared_experts.gate_proj.weight");
  CHECK_FALSE(moe.index_query.is_present());
  REQUIRE(moe.experts.size() == 4);
  CHECK(moe.experts[3].down.name == kExpertPrefix + "3.down_proj.weight");
  CHECK(moe.experts[3].down.rows == 16);
  CHECK(sources.ignored_tensors.empty());
}

TEST_CASE("every single tensor is checked against the shape its use implies [X-04]") {
  const TinyModel whole;
  for (const TestTensor &tensor : whole.tensors) {
    TinyModel model = whole;
    std::vector<uint64_t> shape = tensor.shape;
    shape[0] += 1;
    model.find(tensor.name) = zeros(tensor.name, tensor.type, shape);
    expect_refused(model, StatusCode::kFormat, {tensor.name, "model.safetensors", "shape"});
  }
}

TEST_CASE("routed experts that no layer can use are an error [L-20, L-22]") {
  TinyModel model;
  model.tensors.push_back(zeros(kExpertPrefix + "4.gate_proj.weight", "BF16", {6, 16}));
  expect_refused(model, StatusCode::kFormat, {kExpertPrefix + "4", "expert id 4", "0..3"});
  model = TinyModel();
  model.tensors.push_back(zeros("model.layers.0.mlp.experts.0.gate_proj.weight", "BF16", {6, 16}));
  expect_refused(model, StatusCode::kFormat, {"layer 0 is dense"});
}

TEST_CASE(
    "tensors nobody needs are listed: MTP layer, indexers of shared layers, unknown names [L-20]") {
  TinyModel model;
  const std::vector<std::string> extra = {"model.layers.2.mlp.experts.0.gate_proj.bias",
                                          "model.layers.2.self_attn.indexer.wk.weight",
                                          "model.layers.3.eh_proj.weight",
                                          "model.layers.3.mlp.experts.9.gate_proj.weight",
                                          "model.layers.02.x",
                                          "model.layers.99999999999.x",
                                          "rotary.inv_freq"};
  for (const std::string &name : extra) model.tensors.push_back(zeros(name, "BF16", {2}));
  std::vector<std::string> ignored = resolve(model).ignored_tensors;
  CHECK(ignored.size() == extra.size());
  for (const std::string &name : extra) {
    INFO(name);
    CHECK(std::count(ignored.begin(), ignored.end(), name) == 1);
  }
}

TEST_CASE("routed and shared experts have separate names and ids [L-22]") {
  TinyModel model;
  model.config["n_shared_experts"] = "2";
  for (int layer = 1; layer < 3; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.shared_experts.";
    model.find(prefix + "gate_proj.weight") = zeros(prefix + "gate_proj.weight", "BF16", {12, 16});
    model.find(prefix + "up_proj.weight") = zeros(prefix + "up_proj.weight", "BF16", {12, 16});
    model.find(prefix + "down_proj.weight") = zeros(prefix + "down_proj.weight", "BF16", {16, 12});
  }
  const ModelSources sources = resolve(model);
  CHECK(sources.layers[1].dense_gate.rows == 12);
  CHECK(sources.layers[1].experts.size() == 4);
}

TEST_CASE("without shared experts their tensors are neither needed nor used") {
  TinyModel model;
  model.config["n_shared_experts"] = "0";
  const ModelSources sources = resolve(model);
  CHECK_FALSE(sources.layers[1].dense_gate.is_present());
  CHECK(sources.ignored_tensors.size() == 6);
}

TEST_CASE("a tied head is the embedding and is visited once") {
  TinyModel model;
  model.config["tie_word_embeddings"] = "true";
  model.erase("lm_head.weight");
  const ModelSources sources = resolve(model);
  CHECK(sources.head.name == "model.embed_tokens.weight");
  size_t n_visited = 0;
  visit_sources(sources, [&](const WeightSource &) { ++n_visited; });
  CHECK(n_visited == model.tensors.size());
}

TEST_CASE("a visit sees every tensor of the file exactly once") {
  const TinyModel model;
  std::map<std::string, int> visits;
  visit_sources(resolve(model), [&](const WeightSource &source) { ++visits[source.name]; });
  CHECK(visits.size() == model.tensors.size());
  for (const TestTensor &tensor : model.tensors) CHECK(visits[tensor.name] == 1);
}

TEST_CASE("every tensor of a packed model is found and has its place") {
  const ModelSources sources = resolve(PackedModel());
  REQUIRE(sources.layers.size() == 3);
  CHECK(sources.embedding.format == StoredFormat::kPacked);
  const LayerSources &moe = sources.layers[2];
  CHECK(moe.query_b.format == StoredFormat::kPacked);
  CHECK(moe.query_b.rows == 20);
  CHECK(moe.router.format == StoredFormat::kBF16);
  CHECK(moe.input_norm.format == StoredFormat::kBF16);
  CHECK_FALSE(moe.kv_b.is_present());
  REQUIRE(moe.kv_heads.is_present());
  CHECK(moe.kv_heads.name == "model.layers.2.self_attn.kv_b_proj.weight");
  REQUIRE(moe.experts.size() == 4);
  CHECK(moe.experts[3].down.name == kExpertPrefix + "3");
  CHECK(moe.experts[3].down.rows == 16);
  CHECK(moe.experts[3].slab.bytes == kPackedAlignment);
  CHECK(sources.ignored_tensors.empty());
}

TEST_CASE("every packed tensor is checked against the shapes its use implies") {
  const PackedModel whole;
  for (const PackedEntry &entry : whole.entries) {
    if (!entry.form) continue;
    PackedModel model = whole;
    for (MadeMatrix &part : model.find(entry.name).parts) {
      // 16 is the width of the model, 6 that of a head's key half and of an expert.
      const WeightLayout &old = part.layout;
      const bool is_key = entry.form == PackedForm::kHeads && old.depth == 6;
      const bool is_wide = entry.form == PackedForm::kExpert && old.depth == 16;
      const bool is_down = entry.form == PackedForm::kExpert && old.columns == 16;
      const uint32_t columns = old.columns + (is_down || entry.form == PackedForm::kMatrix ? 1 : 0);
      part = make_packed_matrix(old.format, columns, old.depth + (is_key || is_wide ? 1 : 0),
                                old.has_row_scale ? 0 : old.group, old.scale_type);
    }
    expect_refused(model, StatusCode::kFormat,
                   {entry.name, "model.safetensors", "the config implies"});
  }
}

TEST_CASE("packed and separate experts may stand in one layer, but none as both") {
  PackedModel model;
  const std::string packed = kExpertPrefix + "1";
  const auto add_matrices = [&] {
    for (const char *part : {"gate", "up", "down"}) {
      const std::string name = packed + "." + part + "_proj.weight";
      const std::vector<uint64_t> shape =
          *part == 'd' ? std::vector<uint64_t>{16, 6} : std::vector<uint64_t>{6, 16};
      model.add({name, std::nullopt, {}, zeros(name, "BF16", shape)});
    }
  };
  add_matrices();
  expect_refused(model, StatusCode::kFormat,
                 {"expert 1 of layer 2", "twice", packed + ".gate_proj.weight"});
  model.erase(packed);
  const ModelSources sources = resolve(model);
  CHECK(sources.layers[2].experts[0].gate.format == StoredFormat::kPacked);
  CHECK(sources.layers[2].experts[1].gate.format == StoredFormat::kBF16);
  CHECK(sources.layers[2].experts[1].slab.bytes == 0);
  CHECK(sources.ignored_tensors.empty());
}

TEST_CASE("packed experts that no layer can use are an error") {
  for (const char *name : {"model.layers.2.mlp.experts.4", "model.layers.0.mlp.experts.0"}) {
    PackedModel model;
    PackedEntry entry = model.find(kExpertPrefix + "0");
    entry.name = name;
    model.add(entry);
    expect_refused(model, StatusCode::kFormat, {name});
  }
}

TEST_CASE("kv_b_proj may be packed by heads or stored plain, but not packed as one matrix") {
  const std::string name = "model.layers.1.self_attn.kv_b_proj.weight";
  PackedModel model;
  model.erase(name);
  model.add({name, std::nullopt, {}, zeros(name, "BF16", {22, 8})});
  const ModelSources sources = resolve(model);
  CHECK(sources.layers[1].kv_b.is_present());
  CHECK_FALSE(sources.layers[1].kv_heads.is_present());
  CHECK(sources.layers[2].kv_heads.is_present());
  model.erase(name);
  model.add({name, PackedForm::kMatrix, {make_packed_matrix(WeightFormat::kInt8, 22, 8)}, {}});
  expect_refused(model, StatusCode::kUnsupported, {name, "one matrix"});
}

TEST_CASE("a router, a norm or a bias cannot be packed") {
  for (const char *suffix : {"mlp.gate.weight", "input_layernorm.weight"}) {
    const std::string name = std::string("model.layers.1.") + suffix;
    PackedModel model;
    model.erase(name);
    model.add({name, PackedForm::kMatrix, {make_packed_matrix(WeightFormat::kInt8, 4, 16)}, {}});
    expect_refused(model, StatusCode::kUnsupported, {name, "U8"});
  }
}

TEST_CASE(
    "a visit of a packed model sees the three matrices of an expert and both halves of a head") {
  const PackedModel model;
  std::map<std::string, size_t> visits;
  visit_sources(resolve(model), [&](const WeightSource &source) { ++visits[source.name]; });
  CHECK(visits.size() == model.entries.size());
  for (const PackedEntry &entry : model.entries) {
    INFO(entry.name);
    CHECK(visits[entry.name] == (entry.form ? entry.parts.size() : 1));
  }
}

}  // namespace colibri::test
