// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/tensor_synthesis.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "lib/base/number_formats.h"
#include "lib/convert/synthesis_shapes.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;

// The tensors of two layers of colibri-tiny.
class Tensors {
 public:
  explicit Tensors(uint64_t seed = 1, uint32_t n_threads = 1)
      : config_(synthesis_config(
            synthesis_config_text(find_synthesis_shape("colibri-tiny"), {2, 0.5, 0.5, seed}))),
        design_(design_routing({config_.n_experts, config_.n_experts_per_token}, 0.5, 0.5)),
        plan_(plan_synthesis(config_)),
        threads_(n_threads),
        synthesis_(config_, design_, seed, threads_) {}

  const RoutingDesign &design() const { return design_; }
  size_t count() const { return plan_.steps.size(); }
  const OutputTensor &tensor(size_t i) const { return plan_.output.tensors[i]; }

  std::vector<uint8_t> bytes_of(size_t i) {
    std::vector<uint8_t> bytes;
    synthesis_.stream(tensor(i), plan_.steps[i], [&](std::span<const uint8_t> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    return bytes;
  }

  std::vector<uint8_t> bytes_of(const std::string &name) {
    for (size_t i = 0; i < count(); ++i) {
      if (tensor(i).name == name) return bytes_of(i);
    }
    throw std::runtime_error("no tensor " + name);
  }

  std::vector<float> floats_of(const std::string &name) {
    const std::vector<uint8_t> bytes = bytes_of(name);
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    return floats;
  }

 private:
  ModelConfig config_;
  RoutingDesign design_;
  SynthesisPlan plan_;
  ThreadPool threads_;
  TensorSynthesis synthesis_;
};

TEST_CASE("every tensor has the bytes of its plan, the same with any number of threads") {
  Tensors one(1, 1);
  Tensors three(1, 3);
  for (size_t i = 0; i < one.count(); ++i) {
    INFO(one.tensor(i).name);
    const std::vector<uint8_t> bytes = one.bytes_of(i);
    REQUIRE(bytes.size() == one.tensor(i).bytes);
    CHECK(bytes == three.bytes_of(i));
  }
}

TEST_CASE("no two experts are the same, and another seed has others") {
  Tensors tensors;
  Tensors other(2);
  std::map<std::vector<uint8_t>, std::string> seen;
  for (size_t i = 0; i < tensors.count(); ++i) {
    if (!tensors.tensor(i).layout || tensors.tensor(i).layout->form != PackedForm::kExpert)
      continue;
    for (Tensors *from : {&tensors, &other}) {
      const auto [place, is_new] = seen.emplace(from->bytes_of(i), tensors.tensor(i).name);
      INFO(tensors.tensor(i).name << " and " << place->second);
      CHECK(is_new);
    }
  }
  CHECK(seen.size() == 2 * 2 * 32);
}

TEST_CASE("rows of a router have length 1 and nothing in common") {
  Tensors tensors;
  const std::vector<float> router = tensors.floats_of("model.layers.1.mlp.gate.weight");
  REQUIRE(router.size() == 32 * 192);
  for (size_t a = 0; a < 32; ++a) {
    for (size_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (size_t d = 0; d < 192; ++d) {
        sum += static_cast<double>(router[a * 192 + d]) * router[b * 192 + d];
      }
      CHECK(sum == Approx(a == b ? 1.0 : 0.0).margin(a == b ? 1e-5 : 0.35));
    }
  }
  CHECK(router != tensors.floats_of("model.layers.0.mlp.gate.weight"));
}

TEST_CASE("each layer has the biases of the design in an order of its own") {
  Tensors tensors;
  std::vector<std::vector<float>> layers;
  for (const char *layer : {"0", "1"}) {
    layers.push_back(tensors.floats_of("model.layers." + std::string(layer) +
                                       ".mlp.gate.e_score_correction_bias"));
  }
  CHECK(layers[0] != layers[1]);
  std::vector<float> designed = tensors.design().biases;
  std::sort(designed.begin(), designed.end());
  for (std::vector<float> &biases : layers) {
    CHECK(biases != tensors.design().biases);
    std::sort(biases.begin(), biases.end());
    CHECK(biases == designed);
  }
}

TEST_CASE("norms are 1, the bias of an indexer's norm 0, and its BF16 rows have length 1") {
  Tensors tensors;
  const std::string prefix = "model.layers.0.self_attn.indexer.";
  CHECK(tensors.floats_of("model.norm.weight") == std::vector<float>(192, 1.0f));
  CHECK(tensors.floats_of(prefix + "k_norm.weight") == std::vector<float>(32, 1.0f));
  CHECK(tensors.floats_of(prefix + "k_norm.bias") == std::vector<float>(32, 0.0f));
  const std::vector<uint8_t> bytes = tensors.bytes_of(prefix + "weights_proj.weight");
  std::vector<uint16_t> halves(bytes.size() / 2);
  std::memcpy(halves.data(), bytes.data(), bytes.size());
  REQUIRE(halves.size() == 4 * 192);
  for (size_t row = 0; row < 4; ++row) {
    double square = 0;
    for (size_t d = 0; d < 192; ++d) {
      const double weight = bf16_to_float(halves[row * 192 + d]);
      square += weight * weight;
    }
    CHECK(square == Approx(1.0).margin(0.01));
  }
}

}  // namespace
