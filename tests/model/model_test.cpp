// SPDX-License-Identifier: Apache-2.0
//
// What is refused when a model is put together, and that packed weights compute what they are. What
// a model computes is tested in tests/golden.

#include "lib/model/model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/base/number_formats.h"
#include "tests/golden/engine.h"
#include "tests/snapshot/packed_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

const std::vector<int32_t> kTokens = {3, 1, 4, 1, 5, 9, 2, 6};

// Norms of one and small router weights in the place of zeros, so that a pass computes something.
void fill_plain(PackedModel *model) {
  for (PackedEntry &entry : model->entries) {
    if (entry.form || entry.plain.type != "BF16") continue;
    const bool is_norm = entry.name.find("norm") != std::string::npos;
    for (size_t i = 0; 2 * i < entry.plain.data.size(); ++i) {
      const float value =
          is_norm ? 1.0f : 0.125f * static_cast<float>(static_cast<int>(i * 7 % 5) - 2);
      const uint16_t half = float_to_bf16(value);
      std::memcpy(&entry.plain.data[2 * i], &half, sizeof half);
    }
  }
}

}  // namespace

TEST_CASE("gate and up of one expert must be packed alike, since they share an input") {
  struct Other {
    WeightFormat format;
    uint32_t group;
    ScaleType scales;
  };
  for (const Other &other : {Other{WeightFormat::kInt8, 16, ScaleType::kBF16},
                             Other{WeightFormat::kInt4, 32, ScaleType::kBF16},
                             Other{WeightFormat::kInt4, 0, ScaleType::kBF16},
                             Other{WeightFormat::kInt4, 16, ScaleType::kF32}}) {
    const TempFolder folder;
    PackedModel model;
    const std::string name = "model.layers.2.mlp.experts.3";
    model.find(name).parts[1] = make_packed_matrix(other.format, 6, 16, other.group, other.scales);
    model.write(folder);
    expect_failure(StatusCode::kUnsupported, {name, "int4-packed", "both must agree"},
                   [&] { const Engine engine(folder.path(), {}); });
  }
}

TEST_CASE("a packed model computes the bits of its weights stored plainly as float32") {
  PackedModel model;
  fill_plain(&model);
  const TempFolder packed, plain;
  model.write(packed);
  make_plain(model).write(plain);
  Engine expected(plain.path(), {});
  Engine engine(packed.path(), {});
  const std::vector<float> logits = engine.run(kTokens, 0, 0);
  CHECK(logits == expected.run(kTokens, 0, 0));
  CHECK(std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }));
  CHECK(std::any_of(logits.begin(), logits.end(), [](float x) { return x != 0.0f; }));
}

TEST_CASE("a packed model with integer heads gives the same bits row by row and all at once") {
  PackedModel model;
  fill_plain(&model);
  for (PackedEntry &entry : model.entries) {
    if (entry.form != PackedForm::kHeads) continue;
    for (uint32_t head = 0; head < 2; ++head) {
      entry.parts[2 * head] =
          make_packed_matrix(WeightFormat::kInt8, 8, 6, 32, ScaleType::kBF16, head);
    }
  }
  const TempFolder folder;
  model.write(folder);
  EngineOptions options;
  options.activations = ActivationMode::kInteger;
  Engine engine(folder.path(), options);
  const std::vector<float> logits = engine.run(kTokens, 0, 0);
  CHECK(engine.run(kTokens, 0, 1) == logits);
  CHECK(std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }));
  CHECK(std::any_of(logits.begin(), logits.end(), [](float x) { return x != 0.0f; }));
}

}  // namespace colibri::test
