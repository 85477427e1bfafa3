// SPDX-License-Identifier: Apache-2.0
//
// Names and shapes of the tensors a model needs: the census, the errors, what is ignored.

#include "lib/snapshot/model_tensors.h"

#include <algorithm>

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

// Index and config of a tiny model as it is.
struct Opened {
  TensorIndex index;
  ModelConfig config;
};

Opened open(const TinyModel &model) {
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(memory_reader("model.safetensors", safetensors_file(model.tensors)));
  const JsonDocument document = JsonDocument::parse(model.config_text(), "config.json");
  return {TensorIndex::from_readers(std::move(readers)),
          parse_model_config(document.root(), "config.json")};
}

ModelSources resolve(const TinyModel &model) {
  const Opened opened = open(model);
  return resolve_model_tensors(opened.index, opened.config, "");
}

void expect_refused(const TinyModel &model, StatusCode code,
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

TEST_CASE("every single needed tensor is missed when it is absent [L-20]") {
  const TinyModel whole;
  for (const TestTensor &tensor : whole.tensors) {
    TinyModel model = whole;
    model.erase(tensor.name);
    expect_refused(model, StatusCode::kIncomplete, {"1 of ", "first " + tensor.name});
  }
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

TEST_CASE("missing layers are reported as ranges before anything else [L-02]") {
  TinyModel model;
  model.config["num_hidden_layers"] = "9";
  model.config["indexer_types"] = "null";
  model.erase_layer(1);
  expect_refused(model, StatusCode::kIncomplete,
                 {"(layers 1-8)", "first model.layers.1.input_layernorm.weight", "found 1 shards"});
}

TEST_CASE("a config that lies about its size costs nothing [L-02]") {
  TinyModel model;
  model.config["num_hidden_layers"] = "1024";
  model.config["indexer_types"] = "null";
  model.config["n_routed_experts"] = "4096";
  expect_refused(model, StatusCode::kIncomplete, {"layers 1-1023"});
}

TEST_CASE("missing experts are counted and the first is named") {
  TinyModel model;
  for (const char *part : {"gate_proj", "up_proj", "down_proj"})
    model.erase(kExpertPrefix + "1." + part + ".weight");
  expect_refused(model, StatusCode::kIncomplete,
                 {"3 of ", "(layers 2)", kExpertPrefix + "1.gate_proj.weight"});
}

TEST_CASE("fused expert tensors are refused by name") {
  TinyModel model;
  for (const char *part : {"gate_proj", "up_proj", "down_proj"}) {
    for (int expert = 0; expert < 4; ++expert) {
      model.erase(kExpertPrefix + std::to_string(expert) + "." + part + ".weight");
    }
  }
  model.tensors.push_back(zeros("model.layers.2.mlp.experts.gate_up_proj", "BF16", {4, 12, 16}));
  expect_refused(model, StatusCode::kUnsupported, {"model.layers.2.mlp.experts.gate_up_proj"});
}

TEST_CASE("missing scales of a container count as absent tensors") {
  TinyModel model;
  model.find("lm_head.weight") = zeros("lm_head.weight", "U8", {512});
  expect_refused(model, StatusCode::kIncomplete, {"lm_head.weight.qs"});
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
                                          "model.layers.2.mlp.experts.gate_up_proj",
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

TEST_CASE("a file without tensors is an incomplete model, not a fault [L-13]") {
  TinyModel model;
  model.tensors.clear();
  expect_refused(model, StatusCode::kIncomplete, {"first model.embed_tokens.weight"});
}

}  // namespace colibri::test
