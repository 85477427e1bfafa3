// SPDX-License-Identifier: Apache-2.0
//
// Whole conversions: what of a source is in the result. What stops one: converter_refusal_test.cpp.

#include "lib/convert/converter.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "lib/base/buffer.h"
#include "lib/residency/weight_packing.h"
#include "tests/convert/random_model.h"
#include "tests/convert/whole_conversion.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace fs = std::filesystem;
namespace {

std::string golden(const std::string &name) {
  return std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-" + name;
}

// As the library packs a matrix when it opens its source.
std::vector<uint8_t> load_and_pack(const Snapshot &snapshot, const WeightSource &source) {
  Buffer staging(staging_bytes(source), "staging");
  Buffer packed(packed_layout(source).total_bytes(), "packed");
  REQUIRE(load_packed(snapshot.index(), source, {staging.data(), staging.size()}, packed.data(),
                      nullptr)
              .is_ok());
  return {packed.data(), packed.data() + packed.size()};
}

bool has_integers(const WeightSource &source) {
  return packed_layout(source).is_integer();
}

// Number of matrices whose bytes in the result are those that the source has in memory; every one
// must be.
uint64_t count_same_experts(const Snapshot &source, const Snapshot &result) {
  uint64_t n = 0;
  for (size_t i = 0; i < source.sources().layers.size(); ++i) {
    const std::vector<ExpertSource> &before = source.sources().layers[i].experts;
    const std::vector<ExpertSource> &after = result.sources().layers[i].experts;
    REQUIRE(before.size() == after.size());
    for (size_t e = 0; e < before.size(); ++e) {
      for (const auto field : {&ExpertSource::gate, &ExpertSource::up, &ExpertSource::down}) {
        INFO((before[e].*field).name);
        REQUIRE((after[e].*field).format == StoredFormat::kPacked);
        REQUIRE((after[e].*field).packed == packed_layout(before[e].*field));
        REQUIRE(read_span(result.index(), (after[e].*field).values) ==
                load_and_pack(source, before[e].*field));
        ++n;
      }
    }
  }
  return n;
}

constexpr WeightSource LayerSources::*kDenseMatrices[] = {
    &LayerSources::query_a,    &LayerSources::query_b,     &LayerSources::kv_a,
    &LayerSources::output,     &LayerSources::index_query, &LayerSources::index_key,
    &LayerSources::dense_gate, &LayerSources::dense_up,    &LayerSources::dense_down};

uint64_t count_same_dense_integers(const Snapshot &source, const Snapshot &result) {
  uint64_t n = 0;
  for (size_t i = 0; i < source.sources().layers.size(); ++i) {
    for (const auto field : kDenseMatrices) {
      const WeightSource &before = source.sources().layers[i].*field;
      const WeightSource &after = result.sources().layers[i].*field;
      if (!before.is_present() || !has_integers(before)) continue;
      INFO(before.name);
      REQUIRE(after.format == StoredFormat::kPacked);
      REQUIRE(read_span(result.index(), after.values) == load_and_pack(source, before));
      ++n;
    }
  }
  return n;
}

}  // namespace

TEST_CASE("codes and scales of every integer model are repacked without a change") {
  for (const char *name : {"int4g64", "int4row", "int8row"}) {
    INFO(name);
    const Folders folders;
    const auto before = read_files(golden(name));
    const ConversionReport report = convert_quietly(golden(name), folders.result());
    CHECK(read_files(golden(name)) == before);
    const Snapshot source = Snapshot::open(golden(name));
    const Snapshot result = Snapshot::open(folders.result());
    CHECK(result.config() == source.config());
    const uint64_t n_experts = count_same_experts(source, result);
    const uint64_t n_dense = count_same_dense_integers(source, result);
    CHECK(n_experts > 10);
    CHECK(n_dense > 5);
    CHECK(report.n_quantised_matrices == 0);
    CHECK(report.relative_error == 0);
    CHECK(report.n_kept_matrices >= n_experts + n_dense);
    for (const LayerSources &layer : source.sources().layers) {
      const WeightSource &kv_b = layer.kv_b;
      CHECK(read_tensor(result.index(), kv_b.name) == read_tensor(source.index(), kv_b.name));
      CHECK(read_tensor(result.index(), kv_b.name + ".qs") ==
            read_tensor(source.index(), kv_b.name + ".qs"));
    }
  }
}

TEST_CASE("keep changes no weight of a float or FP8 model") {
  for (const char *name : {"dense-index", "fp8", "mtp", "sparse"}) {
    INFO(name);
    const Folders folders;
    convert_quietly(golden(name), folders.result(), keep_all());
    const Snapshot source = Snapshot::open(golden(name));
    const Snapshot result = Snapshot::open(folders.result());
    count_same_experts(source, result);
    uint64_t n_plain = 0;
    for (const std::string_view tensor : source.index().names()) {
      const std::string text(tensor);
      const bool is_expert = text.find(".mlp.experts.") != std::string::npos;
      if (is_expert && result.index().find(text) == nullptr) continue;
      ++n_plain;
      CHECK(read_tensor(result.index(), text) == read_tensor(source.index(), text));
      CHECK(result.index().find(text)->shape == source.index().find(text)->shape);
    }
    CHECK(n_plain > 20);
  }
}

TEST_CASE("experts in tensors of all experts give the bytes that separate matrices give") {
  for (const ConversionOptions &options : {ConversionOptions(), keep_all()}) {
    const Folders separate;
    const Folders fused;
    TinyModel model = make_random_model();
    separate.write(model);
    for (const int layer : {1, 2}) model.fuse_experts(layer);
    fused.write(model);
    convert_quietly(separate.source(), separate.result(), options);
    convert_quietly(fused.source(), fused.result(), options);
    const Snapshot a = Snapshot::open(separate.result());
    const Snapshot b = Snapshot::open(fused.result());
    CHECK(b.sources().ignored_tensors.empty());
    for (const std::string_view tensor : a.index().names()) {
      const std::string name(tensor);
      INFO(name);
      REQUIRE(b.index().find(name) != nullptr);
      CHECK(read_tensor(a.index(), name) == read_tensor(b.index(), name));
    }
    CHECK(a.index().size() == b.index().size());
  }
}

TEST_CASE("a model of every family converts, all of its tensors in their places") {
  for (const char *name :
       {"deepseek_v3-yarn", "deepseek_v32", "glm4_moe", "glm4_moe_lite", "gpt_oss", "gpt_oss-bf16",
        "mixtral", "olmoe", "qwen2_moe", "qwen3_moe", "qwen3_moe-nonorm-tied"}) {
    INFO(name);
    const std::string source_path = std::string(COLIBRI_TEST_DATA) + "/" + name;
    const Folders folders;
    convert_quietly(source_path, folders.result("kept"), keep_all());
    const Snapshot source = Snapshot::open(source_path);
    const Snapshot kept = Snapshot::open(folders.result("kept"));
    CHECK(count_same_experts(source, kept) > 10);
    CHECK(kept.sources().ignored_tensors.size() == source.sources().ignored_tensors.size());
    convert_quietly(source_path, folders.result());
    const Snapshot packed = Snapshot::open(folders.result());
    CHECK(packed.config() == source.config());
    const LayerSources &layer = packed.sources().layers.back();
    CHECK(layer.output.format == StoredFormat::kPacked);
    CHECK(layer.experts.back().down.format == StoredFormat::kPacked);
    if (source.config().attention == AttentionKind::kGrouped) {
      for (const auto field : {&LayerSources::query, &LayerSources::key, &LayerSources::value}) {
        CHECK((layer.*field).format == StoredFormat::kPacked);
      }
    }
  }
}

TEST_CASE("what the model does not use is in the result all the same") {
  for (const char *name : {"mtp", "int4g64"}) {
    const Folders folders;
    const Snapshot source = Snapshot::open(golden(name));
    REQUIRE(source.sources().ignored_tensors.size() > 10);
    convert_quietly(golden(name), folders.result());
    const Snapshot result = Snapshot::open(folders.result());
    for (const std::string &ignored : source.sources().ignored_tensors) {
      INFO(ignored);
      REQUIRE(read_tensor(result.index(), ignored) == read_tensor(source.index(), ignored));
    }
    const auto before = read_files(golden(name));
    const auto after = read_files(folders.result());
    for (const auto &[file, content] : before) {
      if (file.ends_with(".safetensors")) continue;
      INFO(file);
      REQUIRE(after.count(file) == 1);
      CHECK(after.at(file) == content);
    }
  }
}

TEST_CASE("a stamped format is stamped in the result, where byte counts alone say another") {
  // One FP8 block per row: as many scales as INT8 has.
  const std::string name = "model.layers.0.self_attn.q_a_proj.weight";
  TinyModel model = make_random_model();
  model.config["q_lora_rank"] = "1";
  for (TestTensor &tensor : model.tensors) {
    if (tensor.name.find("q_a_proj") != std::string::npos) tensor.shape = {1, 16};
    if (tensor.name.find("q_a_layernorm") != std::string::npos) tensor.shape = {1};
    if (tensor.name.find("q_b_proj") != std::string::npos) tensor.shape = {20, 1};
    if (tensor.name.find("wq_b") != std::string::npos) tensor.shape = {16, 1};
    uint64_t bytes = tensor.type == "F32" ? 4 : 2;
    for (const uint64_t extent : tensor.shape) bytes *= extent;
    tensor.data.resize(bytes);
  }
  store_as("container F8", &model, name);
  const Folders folders;
  fs::create_directory(folders.source());
  std::ofstream(folders.source() + "/config.json") << model.config_text();
  std::ofstream(folders.source() + "/model.safetensors", std::ios::binary) << safetensors_file(
      model.tensors, "{\"colibri.fmt\":\"{\\\"" + name + "\\\":\\\"fp8-e4m3-b128\\\"}\"}");
  const Snapshot source = Snapshot::open(folders.source());
  REQUIRE(source.sources().layers[0].query_a.format == StoredFormat::kFp8Block);
  convert_quietly(folders.source(), folders.result(), keep_all());
  const Snapshot result = Snapshot::open(folders.result());
  CHECK(result.sources().layers[0].query_a.format == StoredFormat::kFp8Block);
  CHECK(read_weights(result, result.sources().layers[0].query_a) ==
        read_weights(source, source.sources().layers[0].query_a));
}

TEST_CASE("a quantised model is near its source in every matrix") {
  const Folders folders;
  const ConversionReport report = convert_quietly(golden("sparse"), folders.result());
  const Snapshot source = Snapshot::open(golden("sparse"));
  const Snapshot result = Snapshot::open(folders.result());
  double error = 0, weight = 0;
  uint64_t n_matrices = 0;
  const auto compare = [&](const WeightSource &before, const WeightSource &after) {
    const std::vector<float> exact = read_weights(source, before);
    const std::vector<float> rounded = read_weights(result, after);
    double matrix_error = 0, matrix_weight = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      matrix_error += std::pow(static_cast<double>(exact[i]) - rounded[i], 2.0);
      matrix_weight += std::pow(exact[i], 2.0);
    }
    INFO(before.name);
    const bool is_int4 = after.packed.format == WeightFormat::kInt4;
    CHECK(std::sqrt(matrix_error / matrix_weight) < (is_int4 ? 0.13 : 0.009));
    error += matrix_error;
    weight += matrix_weight;
    ++n_matrices;
  };
  for (size_t i = 0; i < source.sources().layers.size(); ++i) {
    const LayerSources &before = source.sources().layers[i];
    const LayerSources &after = result.sources().layers[i];
    for (const auto field : kDenseMatrices) {
      if ((before.*field).is_present()) compare(before.*field, after.*field);
    }
    for (size_t e = 0; e < before.experts.size(); ++e) {
      for (const auto field : {&ExpertSource::gate, &ExpertSource::up, &ExpertSource::down}) {
        compare(before.experts[e].*field, after.experts[e].*field);
      }
    }
    CHECK(after.kv_heads.is_present());
  }
  // All but the heads, one matrix in each layer.
  CHECK(report.n_quantised_matrices == n_matrices + source.sources().layers.size());
  CHECK(report.relative_error == Approx(std::sqrt(error / weight)).epsilon(0.1));
}

TEST_CASE("every option gives a snapshot that opens") {
  TinyModel model = make_random_model();
  store_as("F8", &model, "model.layers.0.self_attn.q_a_proj.weight");
  store_as("F8", &model, "model.layers.1.self_attn.kv_b_proj.weight");
  store_as("container F8", &model, "model.layers.2.self_attn.kv_b_proj.weight");
  store_as("F32", &model, "model.embed_tokens.weight");
  store_as("F16", &model, "model.layers.1.mlp.experts.0.up_proj.weight");
  store_as("INT4 16", &model, "model.layers.1.mlp.experts.1.up_proj.weight");
  const Folders folders;
  folders.write(model);
  int n = 0;
  for (const TargetFormat experts :
       {TargetFormat::kKeep, TargetFormat::kInt8, TargetFormat::kInt4}) {
    for (const TargetFormat dense :
         {TargetFormat::kKeep, TargetFormat::kBF16, TargetFormat::kInt8, TargetFormat::kInt4}) {
      for (const TargetFormat ends :
           {TargetFormat::kKeep, TargetFormat::kBF16, TargetFormat::kInt8}) {
        ConversionOptions options;
        options.experts = experts;
        options.dense = dense;
        options.embedding = options.head = ends;
        const std::string path = folders.result(std::to_string(n++));
        convert_quietly(folders.source(), path, options);
        CHECK(Snapshot::open(path).index().is_packed());
      }
    }
  }
}

TEST_CASE("the result does not depend on threads or on where it was cut into files") {
  const Folders folders;
  ConversionOptions options;
  options.max_shard_bytes = 300'000;
  convert_quietly(golden("sparse"), folders.result("one"), options);
  options.n_threads = 4;
  convert_quietly(golden("sparse"), folders.result("four"), options);
  CHECK(read_files(folders.result("one")) == read_files(folders.result("four")));
  CHECK(read_files(folders.result("one")).size() > 4);
}

TEST_CASE("progress counts up to twice the bytes of the result, and false stops at any call") {
  const Folders folders;
  folders.write(make_random_model());
  std::vector<std::pair<uint64_t, uint64_t>> calls;
  ConversionOptions options;
  options.progress = [&](uint64_t done_bytes, uint64_t total_bytes) {
    calls.emplace_back(done_bytes, total_bytes);
    return true;
  };
  const ConversionReport report = convert_quietly(folders.source(), folders.result(), options);
  REQUIRE(calls.size() > 20);
  CHECK(calls.front().first == 0);
  CHECK(calls.back().first == calls.back().second);
  CHECK(calls.back().second == 2 * report.result_bytes);
  for (size_t i = 1; i < calls.size(); ++i) {
    REQUIRE(calls[i].first >= calls[i - 1].first);
    REQUIRE(calls[i].second == calls[0].second);
  }
  const auto expected = read_files(folders.result());
  for (size_t stop = 0; stop < calls.size(); stop += calls.size() / 7) {
    const std::string path = folders.result("stopped" + std::to_string(stop));
    size_t n = 0;
    options.progress = [&](uint64_t, uint64_t) { return n++ != stop; };
    options.resumes = false;
    CHECK_THROWS_AS(convert_snapshot(folders.source(), path, options), Error);
    options.progress = nullptr;
    options.resumes = true;
    const ConversionReport rest = convert_quietly(folders.source(), path, options);
    CHECK(rest.n_tensors == report.n_tensors);
    CHECK(read_files(path) == expected);
  }
}

}  // namespace colibri::test
