// SPDX-License-Identifier: Apache-2.0
//
// A model folder as a whole: what opens, what is refused, what can be asked afterwards.

#include "lib/snapshot/snapshot.h"

#include <filesystem>
#include <random>

#include "tests/snapshot/packed_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

void expect_refused(const TempFolder &folder, StatusCode code,
                    std::initializer_list<std::string_view> parts) {
  expect_failure(code, parts, [&] { Snapshot::open(folder.path()); });
}

std::vector<std::string> golden_folders() {
  std::vector<std::string> folders;
  for (const auto &entry : std::filesystem::directory_iterator(COLIBRI_TEST_DATA)) {
    if (entry.path().filename().string().find("glm_moe_dsa") == 0)
      folders.push_back(entry.path().string());
  }
  return folders;
}

}  // namespace

TEST_CASE("opens a folder and answers what was opened") {
  const TempFolder folder;
  TinyModel().write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  CHECK(snapshot.config().width == 16);
  CHECK(snapshot.directory() == folder.path());
  CHECK(snapshot.config_document().root().get("hidden_size").as_integer() == 16);
  CHECK(snapshot.sources().layers.size() == 3);
  CHECK(snapshot.warnings().empty());
  CHECK(snapshot.index().metadata().at("format") == "pt");
}

TEST_CASE("every golden folder opens and all of its weights can be read [L-04]") {
  const std::vector<std::string> folders = golden_folders();
  CHECK(folders.size() >= 7);
  for (const std::string &folder : folders) {
    INFO(folder);
    const Snapshot snapshot = Snapshot::open(folder);
    uint64_t n_finite = 0, n_values = 0;
    for (const LayerSources &layer : snapshot.sources().layers) {
      for (const ExpertSource &expert : layer.experts) {
        std::vector<float> values(expert.down.rows * expert.down.columns);
        read_dequantised(snapshot.index(), expert.down, values.data());
        n_values += values.size();
        for (const float value : values) n_finite += value > -100.0f && value < 100.0f;
      }
    }
    CHECK(n_values > 0);
    CHECK(n_finite == n_values);
  }
}

TEST_CASE("the golden containers hold the formats their description says") {
  const auto formats = [](const std::string &name) {
    std::string text;
    const Snapshot snapshot = Snapshot::open(std::string(COLIBRI_TEST_DATA) + "/" + name);
    for (const auto &entry : snapshot.format_histogram()) text += entry.first + " ";
    return text;
  };
  CHECK(formats("glm_moe_dsa-dense-index") == "f32 ");
  CHECK(formats("glm_moe_dsa-sparse") == "bf16 f32 ");
  CHECK(formats("glm_moe_dsa-fp8") == "bf16 f32 fp8-e4m3-b128 ");
  CHECK(formats("glm_moe_dsa-int4g64") == "f32 int4-grouped int4-row int8-row ");
  CHECK(formats("glm_moe_dsa-int4row") == "f32 int4-row int8-row ");
  CHECK(formats("glm_moe_dsa-int8row") == "f32 int8-row ");
}

TEST_CASE("the format histogram counts every used tensor and its scales [L-23]") {
  const TempFolder folder;
  TinyModel model;
  model.find("lm_head.weight") = zeros("lm_head.weight", "U8", {512});
  model.tensors.push_back(zeros("lm_head.weight.qs", "F32", {32}));
  model.tensors.push_back(zeros("leftover", "BF16", {1000}));
  model.write(folder);
  const auto histogram = Snapshot::open(folder.path()).format_histogram();
  REQUIRE(histogram.size() == 3);
  CHECK(histogram.at("int8-row").n_tensors == 1);
  CHECK(histogram.at("int8-row").bytes == 512 + 32 * 4);
  CHECK(histogram.at("f32").n_tensors == 2);
  CHECK(histogram.at("bf16").n_tensors == model.tensors.size() - 5);
}

TEST_CASE("the stop set is the union of three files, numbers or lists [L-15]") {
  const TempFolder folder;
  TinyModel model;
  model.config["eos_token_id"] = "[30,7]";
  model.write(folder);
  CHECK(Snapshot::open(folder.path()).stop_ids() == std::vector<int64_t>{7, 30});
  folder.write("generation_config.json", R"({"eos_token_id":[7,2,31]})");
  CHECK(Snapshot::open(folder.path()).stop_ids() == std::vector<int64_t>{2, 7, 30, 31});
  folder.write("generation_config.json", R"({"eos_token_id":5})");
  CHECK(Snapshot::open(folder.path()).stop_ids() == std::vector<int64_t>{5, 7, 30});
  folder.write("generation_config.json", "{}");
  CHECK(Snapshot::open(folder.path()).stop_ids() == std::vector<int64_t>{7, 30});
}

TEST_CASE("stop texts of the tokenizer config are kept for who owns a tokenizer [L-15]") {
  const TempFolder folder;
  TinyModel().write(folder);
  const auto texts = [&](const char *json) {
    folder.write("tokenizer_config.json", json);
    return Snapshot::open(folder.path()).stop_token_texts();
  };
  CHECK(texts(R"({"eos_token":"<end>"})") == std::vector<std::string>{"<end>"});
  CHECK(texts(R"({"eos_token":{"content":"<end>","special":true}})") ==
        std::vector<std::string>{"<end>"});
  CHECK(texts(R"({"eos_token":["a",{"content":"b"}]})") == std::vector<std::string>{"a", "b"});
  CHECK(texts(R"({"eos_token":null})").empty());
  CHECK(texts("{}").empty());
}

TEST_CASE("side files that are there must be sound [X-19]") {
  const TempFolder folder;
  TinyModel().write(folder);
  folder.write("generation_config.json", "{");
  expect_refused(folder, StatusCode::kFormat, {"generation_config.json"});
  folder.write("generation_config.json", R"({"eos_token_id":"x"})");
  expect_refused(folder, StatusCode::kFormat, {"generation_config.json", "eos_token_id"});
  folder.remove("generation_config.json");
  folder.write("tokenizer_config.json", "<html>");
  expect_refused(folder, StatusCode::kFormat, {"tokenizer_config.json"});
}

TEST_CASE("config.json is read before any weights and its size is bounded [L-14, X-19]") {
  const TempFolder folder;
  TinyModel().write(folder);
  folder.write("model.safetensors", "garbage");
  folder.write("config.json", R"({"model_type":"llama"})");
  expect_refused(folder, StatusCode::kUnsupported, {"'llama'", "glm_moe_dsa"});
  folder.write("config.json", std::string((16u << 20) + 1, ' '));
  expect_refused(folder, StatusCode::kFormat, {"config.json"});
  folder.remove("config.json");
  expect_refused(folder, StatusCode::kNotFound, {"config.json"});
}

TEST_CASE("one removed shard is one incomplete-model error from every path [L-01]") {
  for (const bool with_index : {true, false}) {
    const TempFolder folder;
    TinyModel().write_shards(folder, 4, with_index);
    CHECK_NOTHROW(Snapshot::open(folder.path()));
    folder.remove("model-00002-of-00004.safetensors");
    for (const char *name : {"", "config.json", "model-00001-of-00004.safetensors"}) {
      expect_failure(StatusCode::kIncomplete,
                     {"incomplete model", "2", "first model.layers.", "found 3 shards",
                      "model-00001-of-00004"},
                     [&] { Snapshot::open(folder.file(name)); });
    }
  }
}

TEST_CASE("links out of the folder are followed by default and refused in strict mode [X-16]") {
  const TempFolder folder;
  const TempFolder blobs;
  TinyModel().write_shards(folder, 2, true);
  CHECK_NOTHROW(Snapshot::open(folder.path(), LinkPolicy::kInside));
  // A link inside of the folder is no reason to refuse.
  std::filesystem::rename(folder.file("config.json"), folder.file("config-here.json"));
  std::filesystem::create_symlink("config-here.json", folder.file("config.json"));
  CHECK_NOTHROW(Snapshot::open(folder.path(), LinkPolicy::kInside));
  const char *name = "model-00002-of-00002.safetensors";
  std::filesystem::rename(folder.file(name), blobs.file("0123abcd"));
  std::filesystem::create_symlink(blobs.file("0123abcd"), folder.file(name));
  CHECK_NOTHROW(Snapshot::open(folder.path()));
  expect_failure(StatusCode::kFormat, {name, "out of its folder"},
                 [&] { Snapshot::open(folder.path(), LinkPolicy::kInside); });
}

TEST_CASE("a removed last container shard is found by the census [L-01, L-02]") {
  const TempFolder folder;
  TinyModel model;
  folder.write("config.json", model.config_text());
  const auto middle = model.tensors.begin() + 40;
  folder.write("out-00000.safetensors", safetensors_file({model.tensors.begin(), middle}));
  folder.write("out-00001.safetensors", safetensors_file({middle, model.tensors.end()}));
  CHECK_NOTHROW(Snapshot::open(folder.path()));
  folder.remove("out-00001.safetensors");
  expect_refused(folder, StatusCode::kIncomplete, {"layers 1-2", "found 1 shards: out-00000"});
}

TEST_CASE("a cut shard is refused at open, wherever it is cut [L-03]") {
  const TempFolder folder;
  const TinyModel model;
  model.write(folder);
  const std::string file = safetensors_file(model.tensors);
  for (size_t size = 0; size < file.size(); size += 1 + size / 7) {
    folder.write("model.safetensors", file.substr(0, size));
    expect_refused(folder, StatusCode::kFormat, {"model.safetensors"});
  }
  folder.write("model.safetensors", file.substr(0, file.size() - 1));
  expect_refused(folder, StatusCode::kFormat, {"model.safetensors"});
  folder.write("model.safetensors", file);
  CHECK_NOTHROW(Snapshot::open(folder.path()));
}

TEST_CASE("random bytes as any file of a model end in an error code [L-06]") {
  const TempFolder folder;
  std::mt19937 generator(7);
  for (const char *name : {"config.json", "model.safetensors", "model.safetensors.index.json",
                           "generation_config.json"}) {
    TinyModel().write(folder);
    for (const size_t size : {0u, 1u, 8u, 9u, 100u, 5000u}) {
      std::string bytes(size, '\0');
      for (char &byte : bytes) byte = static_cast<char>(generator());
      folder.write(name, bytes);
      CHECK_THROWS_AS(Snapshot::open(folder.path()), Error);
      folder.write(name, std::string(size, '\xFF'));
      CHECK_THROWS_AS(Snapshot::open(folder.path()), Error);
    }
    folder.remove(name);
  }
}

TEST_CASE("opens from a folder with spaces and letters beyond ASCII [L-24]") {
  const TempFolder folder(" mod\xC3\xA8le \xE6\xA8\xA1\xE5\x9E\x8B");
  TinyModel().write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  CHECK(snapshot.directory() == folder.path());
  CHECK(Snapshot::open(folder.file("model.safetensors")).sources().layers.size() == 3);
}

TEST_CASE("a padded vocabulary loads: rows without a token are the tokenizer's matter [L-18]") {
  const TempFolder folder;
  TinyModel model;
  model.config["vocab_size"] = "40";
  model.find("lm_head.weight") = zeros("lm_head.weight", "BF16", {40, 16});
  model.find("model.embed_tokens.weight") = zeros("model.embed_tokens.weight", "BF16", {40, 16});
  model.write(folder);
  CHECK(Snapshot::open(folder.path()).config().vocabulary_size == 40);
}

TEST_CASE("the size of the largest expert is taken from the file, not from one expert [X-05]") {
  const TempFolder folder;
  TinyModel model;
  const std::string name = "model.layers.1.mlp.experts.2.up_proj.weight";
  model.find(name) = zeros(name, "F32", {6, 16});
  model.write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  const uint64_t usual = 3 * 6 * 16 * 2;
  CHECK(snapshot.largest_expert_bytes() == usual + 6 * 16 * 2);
  CHECK(snapshot.all_experts_bytes() == 8 * usual + 6 * 16 * 2);
}

TEST_CASE("coarse 4-bit experts and a rounded correction bias are warned of") {
  const std::string golden = std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-int4row";
  const Snapshot coarse = Snapshot::open(golden);
  REQUIRE(coarse.warnings().size() == 1);
  CHECK(coarse.warnings()[0].find("one scale per row") != std::string::npos);
  const TempFolder folder;
  TinyModel model;
  const std::string name = "model.layers.1.mlp.gate.e_score_correction_bias";
  model.find(name) = zeros(name, "BF16", {4});
  model.write(folder);
  const Snapshot rounded = Snapshot::open(folder.path());
  REQUIRE(rounded.warnings().size() == 1);
  CHECK(rounded.warnings()[0].find(name) != std::string::npos);
}

TEST_CASE("the MTP layer of a golden model is ignored and listed") {
  const Snapshot snapshot = Snapshot::open(std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-mtp");
  CHECK(snapshot.sources().ignored_tensors.size() == 47);
  for (const std::string &name : snapshot.sources().ignored_tensors) {
    CHECK(name.find("model.layers.3.") == 0);
  }
}

TEST_CASE("a packed folder opens, and its formats are counted without padding") {
  const TempFolder folder;
  const PackedModel model;
  model.write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  CHECK(snapshot.index().is_packed());
  CHECK(snapshot.warnings().empty());
  std::map<std::string, FormatCount> expected;
  for (const PackedEntry &entry : model.entries) {
    for (const MadeMatrix &part : entry.parts) {
      FormatCount &count =
          expected[std::string(weight_format_name(part.layout.format)) + "-packed"];
      count.n_tensors += 1;
      count.bytes += part.bytes.size();
    }
    if (entry.form) continue;
    FormatCount &count = expected[entry.plain.type == "F32" ? "f32" : "bf16"];
    count.n_tensors += 1;
    count.bytes += entry.plain.data.size();
  }
  const auto histogram = snapshot.format_histogram();
  REQUIRE(histogram.size() == 5);
  for (const auto &[name, count] : expected) {
    INFO(name);
    REQUIRE(histogram.count(name) == 1);
    CHECK(histogram.at(name).n_tensors == count.n_tensors);
    CHECK(histogram.at(name).bytes == count.bytes);
  }
  CHECK(snapshot.all_experts_bytes() == expected.at("int4-packed").bytes);
}

TEST_CASE("packed 4-bit experts with one scale per row are warned of") {
  PackedModel model;
  model.tiny.config["moe_intermediate_size"] = "80";
  model.tiny.config["n_shared_experts"] = "0";
  for (PackedEntry &entry : model.entries) {
    if (entry.form != PackedForm::kExpert) continue;
    const auto make = [](uint32_t columns, uint32_t depth) {
      return make_packed_matrix(WeightFormat::kInt4, columns, depth);
    };
    entry.parts = {make(80, 16), make(80, 16), make(16, 80)};
  }
  const TempFolder folder;
  model.write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  REQUIRE(snapshot.warnings().size() == 1);
  CHECK(snapshot.warnings()[0].find("one scale per row") != std::string::npos);
}

}  // namespace colibri::test
