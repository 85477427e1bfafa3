// SPDX-License-Identifier: Apache-2.0
//
// What is counted as absent, and how it is told.

#include "lib/snapshot/tensor_census.h"

#include "tests/snapshot/packed_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

void count(const TinyModel &model, const std::string &file, const std::string &missing_shards) {
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(memory_reader("model.safetensors", file));
  const TensorIndex index = TensorIndex::from_readers(std::move(readers));
  const JsonDocument document = JsonDocument::parse(model.config_text(), "config.json");
  require_complete(index, parse_model_config(document.root(), "config.json"), missing_shards);
}

void count(const TinyModel &model) {
  count(model, safetensors_file(model.tensors), "");
}

void count(const PackedModel &model) {
  count(model.tiny, model.shard().file(), "");
}

template <typename Model>
void expect_refused(const Model &model, StatusCode code,
                    std::initializer_list<std::string_view> parts) {
  expect_failure(code, parts, [&] { count(model); });
}

const std::string kExpertPrefix = "model.layers.2.mlp.experts.";

}  // namespace

TEST_CASE("a whole model is complete, packed or not") {
  CHECK_NOTHROW(count(TinyModel()));
  CHECK_NOTHROW(count(PackedModel()));
}

TEST_CASE("a missing shard is an incomplete model even if nothing of it is needed") {
  const TinyModel model;
  expect_failure(StatusCode::kIncomplete, {"missing shard number 2", "0 of ", "found 1 shards"},
                 [&] { count(model, safetensors_file(model.tensors), "number 2"); });
}

TEST_CASE("every single needed tensor is missed when it is absent [L-20]") {
  const TinyModel whole;
  for (const TestTensor &tensor : whole.tensors) {
    TinyModel model = whole;
    model.erase(tensor.name);
    expect_refused(model, StatusCode::kIncomplete, {"1 of ", "first " + tensor.name});
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

TEST_CASE("missing scales of a container count as absent tensors") {
  TinyModel model;
  model.find("lm_head.weight") = zeros("lm_head.weight", "U8", {512});
  expect_refused(model, StatusCode::kIncomplete, {"lm_head.weight.qs"});
}

TEST_CASE("a file without tensors is an incomplete model, not a fault [L-13]") {
  TinyModel model;
  model.tensors.clear();
  expect_refused(model, StatusCode::kIncomplete, {"first model.embed_tokens.weight"});
}

TEST_CASE("every tensor of a packed model is missed when it is absent, an expert as one") {
  const PackedModel whole;
  for (const PackedEntry &entry : whole.entries) {
    PackedModel model = whole;
    model.erase(entry.name);
    expect_refused(model, StatusCode::kIncomplete, {"1 of ", "first " + entry.name + ";"});
  }
}

TEST_CASE("a packed layer without experts misses one tensor per expert") {
  PackedModel model;
  for (const char *expert : {"0", "1", "2", "3"}) model.erase(kExpertPrefix + expert);
  expect_refused(model, StatusCode::kIncomplete,
                 {"4 of ", "(layers 2)", "first " + kExpertPrefix + "0;"});
}

TEST_CASE("an expert of a packed model may be three matrices, each of which is then needed") {
  PackedModel model;
  model.erase(kExpertPrefix + "1");
  const auto add_matrix = [&](const char *part, std::vector<uint64_t> shape) {
    const std::string name = kExpertPrefix + "1." + part + "_proj.weight";
    model.add({name, std::nullopt, {}, zeros(name, "BF16", std::move(shape))});
  };
  add_matrix("gate", {6, 16});
  add_matrix("down", {16, 6});
  expect_refused(model, StatusCode::kIncomplete, {"1 of ", "first " + kExpertPrefix + "1.up_proj"});
  add_matrix("up", {6, 16});
  CHECK_NOTHROW(count(model));
}

TEST_CASE("an expert's tensor that is not packed is no expert") {
  PackedModel model;
  model.erase(kExpertPrefix + "1");
  const std::string name = kExpertPrefix + "1";
  model.add({name, std::nullopt, {}, zeros(name, "U8", {4096})});
  expect_refused(model, StatusCode::kIncomplete, {"1 of ", kExpertPrefix + "1"});
}

}  // namespace colibri::test
