// SPDX-License-Identifier: Apache-2.0
//
// What is packed in memory is what the files hold, for every stored format, and takes the planned
// bytes.

#include "lib/model/dense_weights.h"

#include <cstring>

#include "tests/golden/engine.h"
#include "tests/snapshot/packed_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

const char *const kCases[] = {"/glm_moe_dsa-dense-index", "/glm_moe_dsa-sparse",
                              "/glm_moe_dsa-fp8",         "/glm_moe_dsa-int4g64",
                              "/glm_moe_dsa-int4row",     "/glm_moe_dsa-int8row"};

// Column `column` of a packed matrix, dequantised by the backend.
std::vector<float> unpack_column(Backend &backend, const PackedMatrix &matrix, int32_t column) {
  std::vector<float> values(matrix.layout.depth);
  backend.embed({matrix, &column, 1, values.data(), values.size()});
  return values;
}

void check_matrix(Backend &backend, const Snapshot &snapshot, const WeightSource &source,
                  const PackedMatrix &matrix) {
  if (source.name.empty()) return;
  INFO(source.name);
  std::vector<float> expected(source.rows * source.columns);
  read_dequantised(snapshot.index(), source, expected.data());
  REQUIRE(matrix.layout.columns == source.rows);
  REQUIRE(matrix.layout.depth == source.columns);
  for (uint64_t row = 0; row < source.rows; ++row) {
    const std::vector<float> actual = unpack_column(backend, matrix, static_cast<int32_t>(row));
    REQUIRE(std::memcmp(actual.data(), expected.data() + row * source.columns,
                        actual.size() * sizeof(float)) == 0);
  }
}

void check_made(const PackedMatrix &matrix, const MadeMatrix &made) {
  REQUIRE(matrix.layout == made.layout);
  REQUIRE(std::memcmp(matrix.values, made.bytes.data(), made.bytes.size()) == 0);
}

}  // namespace

TEST_CASE("packed dense matrices hold what the files hold") {
  ThreadPool threads(2);
  const std::unique_ptr<Backend> backend = cpu::make_cpu_backend(threads, "");
  for (const char *name : kCases) {
    const Snapshot snapshot = Snapshot::open(std::string(COLIBRI_TEST_DATA) + name);
    DenseWeights weights;
    weights.load(snapshot, threads, nullptr);
    check_matrix(*backend, snapshot, snapshot.sources().embedding, weights.embedding);
    check_matrix(*backend, snapshot, snapshot.sources().head, weights.head);
    for (size_t i = 0; i < weights.layers.size(); ++i) {
      const LayerSources &sources = snapshot.sources().layers[i];
      const LayerWeights &layer = weights.layers[i];
      check_matrix(*backend, snapshot, sources.query_a, layer.query_a);
      check_matrix(*backend, snapshot, sources.query_b, layer.query_b);
      check_matrix(*backend, snapshot, sources.kv_a, layer.kv_a);
      check_matrix(*backend, snapshot, sources.output, layer.output);
      check_matrix(*backend, snapshot, sources.index_query, layer.index_query);
      check_matrix(*backend, snapshot, sources.dense_gate, layer.dense_gate);
      check_matrix(*backend, snapshot, sources.router, layer.router);
    }
  }
}

TEST_CASE("kv_b_proj becomes transposed key parts and straight value parts of every head") {
  ThreadPool threads(1);
  const std::unique_ptr<Backend> backend = cpu::make_cpu_backend(threads, "");
  for (const char *name : kCases) {
    const Snapshot snapshot = Snapshot::open(std::string(COLIBRI_TEST_DATA) + name);
    const ModelConfig &config = snapshot.config();
    DenseWeights weights;
    weights.load(snapshot, threads, nullptr);
    const WeightSource &source = snapshot.sources().layers[1].kv_b;
    std::vector<float> expected(source.rows * source.columns);
    read_dequantised(snapshot.index(), source, expected.data());
    for (uint32_t head = 0; head < config.n_heads; ++head) {
      const float *rows = expected.data() + size_t{head} *
                                                (config.nope_width + config.value_width) *
                                                config.kv_latent;
      for (uint32_t c = 0; c < config.kv_latent; ++c) {
        const std::vector<float> column =
            unpack_column(*backend, weights.layers[1].key_up[head], static_cast<int32_t>(c));
        for (uint32_t d = 0; d < config.nope_width; ++d)
          REQUIRE(column[d] == rows[d * config.kv_latent + c]);
      }
      for (uint32_t v = 0; v < config.value_width; ++v) {
        const std::vector<float> column =
            unpack_column(*backend, weights.layers[1].value_up[head], static_cast<int32_t>(v));
        const float *row = rows + size_t{config.nope_width + v} * config.kv_latent;
        REQUIRE(std::memcmp(column.data(), row, column.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("dense weights of a packed snapshot are the bytes of the file") {
  const TempFolder folder;
  PackedModel model;
  model.write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  for (const uint32_t n_threads : {1u, 3u}) {
    ThreadPool threads(n_threads);
    DenseWeights weights;
    weights.load(snapshot, threads, nullptr);
    check_made(weights.embedding, model.find("model.embed_tokens.weight").parts[0]);
    check_made(weights.head, model.find("lm_head.weight").parts[0]);
    for (size_t i = 0; i < weights.layers.size(); ++i) {
      const LayerWeights &layer = weights.layers[i];
      const std::string prefix = "model.layers." + std::to_string(i) + ".self_attn.";
      check_made(layer.query_b, model.find(prefix + "q_b_proj.weight").parts[0]);
      check_made(layer.output, model.find(prefix + "o_proj.weight").parts[0]);
      const std::vector<MadeMatrix> &heads = model.find(prefix + "kv_b_proj.weight").parts;
      REQUIRE(layer.key_up.size() == 2);
      for (size_t head = 0; head < 2; ++head) {
        check_made(layer.key_up[head], heads[2 * head]);
        check_made(layer.value_up[head], heads[2 * head + 1]);
      }
    }
  }
}

TEST_CASE("a packed matrix larger than a slice is loaded whole") {
  const TempFolder folder;
  PackedModel model;
  model.tiny.config["vocab_size"] = "600000";
  for (const char *name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    model.find(name).parts[0] =
        make_packed_matrix(WeightFormat::kInt8, 600000, 16, 16, ScaleType::kBF16);
  }
  REQUIRE(model.find("lm_head.weight").parts[0].bytes.size() > DenseWeights::kLoadSliceBytes);
  model.write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  ThreadPool threads(2);
  DenseWeights weights;
  weights.load(snapshot, threads, nullptr);
  check_made(weights.head, model.find("lm_head.weight").parts[0]);
  check_made(weights.embedding, model.find("model.embed_tokens.weight").parts[0]);
}

TEST_CASE("progress never falls, ends at the planned bytes, and can stop the load") {
  ThreadPool threads(2);
  const Snapshot snapshot = Snapshot::open(std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-int4g64");
  DenseWeights weights;
  uint64_t last = 0;
  weights.load(snapshot, threads, [&](uint64_t done, uint64_t total) {
    CHECK(done >= last);
    CHECK(total == DenseWeights::bytes(snapshot));
    last = done;
    return true;
  });
  CHECK(last == DenseWeights::bytes(snapshot));
  DenseWeights stopped;
  try {
    stopped.load(snapshot, threads, [](uint64_t, uint64_t) { return false; });
    FAIL("the load went on");
  } catch (const Error &error) {
    CHECK(error.status().code() == StatusCode::kCancelled);
  }
}

}  // namespace colibri::test
