// SPDX-License-Identifier: Apache-2.0
//
// A row's logits do not depend on the rows of other slots in the same pass, nor on their number or
// order.

#include <cstring>

#include "lib/base/buffer.h"
#include "tests/golden/engine.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

constexpr uint32_t kSlots = 8;

// Eight sequences of different lengths over one engine's model.
class Sequences {
 public:
  explicit Sequences(Engine *engine) : engine_(*engine) {
    const uint64_t bytes = engine_.model().kv_layout().slot_bytes();
    for (uint32_t i = 0; i < kSlots; ++i) slots_.emplace_back(bytes, "a test's slot");
  }

  static int32_t token(uint32_t sequence, uint32_t position) {
    return static_cast<int32_t>((sequence * 31 + position * 17 + 5) % 200);
  }

  // Rows [first, last) of a sequence.
  void add(uint32_t sequence, uint32_t first, uint32_t last) {
    for (uint32_t p = first; p < last; ++p) {
      rows_.push_back(
          {token(sequence, p), p, slots_[sequence].data(), static_cast<int32_t>(rows_.size())});
    }
  }

  // Logits of all added rows.
  std::vector<float> run() {
    std::vector<Status> status(rows_.size());
    engine_.model().forward(rows_, engine_.workspace(), status);
    for (const Status &row : status) throw_if_failed(row);
    const float *out = engine_.model().logits(engine_.workspace(), 0);
    std::vector<float> logits(out, out + rows_.size() * engine_.config().vocabulary_size);
    rows_.clear();
    return logits;
  }

 private:
  Engine &engine_;
  std::vector<Buffer> slots_;
  std::vector<ForwardRow> rows_;
};

EngineOptions options_for(ActivationMode mode) {
  EngineOptions options;
  options.activations = mode;
  options.max_rows = 256;
  options.n_threads = 2;
  return options;
}

}  // namespace

TEST_CASE("rows of several slots in one pass give the bits of each slot alone") {
  for (const char *name :
       {"/glm_moe_dsa-sparse", "/glm_moe_dsa-int4g64", "/glm_moe_dsa-int8row", "/deepseek_v3-yarn",
        "/deepseek_v32", "/glm4_moe", "/glm4_moe_lite", "/mixtral", "/qwen3_moe", "/qwen2_moe",
        "/olmoe", "/gpt_oss", "/gpt_oss-bf16"}) {
    for (const ActivationMode mode : {ActivationMode::kFloat, ActivationMode::kInteger}) {
      Engine engine(std::string(COLIBRI_TEST_DATA) + name, options_for(mode));
      const size_t vocabulary = engine.config().vocabulary_size;
      constexpr uint32_t kPrompt = 20;
      constexpr uint32_t kDecoded = 4;

      // Alone: prompt at once, then one token at a time.
      std::vector<std::vector<float>> alone(kSlots);
      for (uint32_t s = 0; s < kSlots; ++s) {
        Sequences sequences(&engine);
        const uint32_t prompt = kPrompt + s;
        sequences.add(s, 0, prompt);
        sequences.run();
        for (uint32_t p = prompt; p < prompt + kDecoded; ++p) {
          sequences.add(s, p, p + 1);
          const std::vector<float> logits = sequences.run();
          alone[s].insert(alone[s].end(), logits.begin(), logits.end());
        }
      }

      for (const uint32_t mates : {1u, 3u, 7u}) {
        Sequences sequences(&engine);
        for (uint32_t s = 0; s <= mates; ++s) sequences.add(s, 0, kPrompt + s - 1);
        sequences.run();
        // The rest of each prompt joins the others' decode rows, in changing order.
        for (uint32_t s = 0; s <= mates; ++s)
          sequences.add(mates - s, kPrompt + mates - s - 1, kPrompt + mates - s);
        sequences.run();
        for (uint32_t step = 0; step < kDecoded; ++step) {
          for (uint32_t s = 0; s <= mates; ++s) {
            const uint32_t sequence = step % 2 == 0 ? s : mates - s;
            sequences.add(sequence, kPrompt + sequence + step, kPrompt + sequence + step + 1);
          }
          const std::vector<float> logits = sequences.run();
          for (uint32_t s = 0; s <= mates; ++s) {
            const uint32_t sequence = step % 2 == 0 ? s : mates - s;
            INFO(name << " mates " << mates << " step " << step << " sequence " << sequence);
            CHECK(std::memcmp(logits.data() + s * vocabulary,
                              alone[sequence].data() + step * vocabulary,
                              vocabulary * sizeof(float)) == 0);
          }
        }
      }
    }
  }
}

}  // namespace colibri::test
