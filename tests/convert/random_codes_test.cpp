// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/random_codes.h"

#include <algorithm>
#include <cmath>

#include "lib/base/number_formats.h"
#include "lib/base/random_stream.h"
#include "lib/base/status.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;

// An expert of 70 KiB and three heads with partial groups; both have padding.
PackedLayout expert_layout() {
  return {PackedForm::kExpert,
          1,
          {int4_layout(64, 720, 64), int4_layout(64, 720, 64), int4_layout(720, 64, 64)}};
}
PackedLayout heads_layout() {
  return {PackedForm::kHeads, 3, {int8_layout(64, 48, 64), int8_layout(64, 64, 64)}};
}

struct AlignedBytes {
  explicit AlignedBytes(size_t size) : memory(size + 64), n(size) {}
  uint8_t *data() {
    return reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  }
  std::span<uint8_t> span() { return {data(), n}; }
  std::vector<uint8_t> memory;
  size_t n;
};

TEST_CASE("every part has the scale it was given, and weights of the deviation that follows") {
  const std::vector<float> scales = {0.5f, 0.25f, 2.0f};
  for (const PackedLayout &layout : {expert_layout(), heads_layout()}) {
    AlignedBytes bytes(layout.tensor_bytes());
    make_codes(PackedConstants(layout, scales), 1, 0, bytes.span());
    for (uint32_t head = 0; head < layout.n_heads; ++head) {
      for (size_t p = 0; p < layout.parts.size(); ++p) {
        const WeightLayout &part = layout.parts[p];
        const PackedMatrix matrix{
            part, bytes.data() + head * layout.head_bytes() + layout.part_offset(p)};
        double sum = 0;
        for (size_t c = 0; c < part.columns; ++c) {
          for (size_t d = 0; d < part.depth; ++d) {
            const double code = static_cast<double>(unpack_weight(matrix, c, d)) / scales[p];
            REQUIRE(code == std::floor(code));
            sum += code * code;
          }
        }
        const double deviation = std::sqrt(sum / (double{1} * part.columns * part.depth));
        INFO(packed_form_name(layout.form) << " part " << p);
        CHECK(deviation == Approx(code_deviation(part.format)).epsilon(0.03));
      }
    }
  }
}

TEST_CASE("what lies between and behind the parts is zero") {
  const std::vector<float> scales = {1.0f, 1.0f, 1.0f};
  for (const PackedLayout &layout : {expert_layout(), heads_layout()}) {
    std::vector<uint8_t> is_used(layout.tensor_bytes(), 0);
    for (uint32_t head = 0; head < layout.n_heads; ++head) {
      for (size_t p = 0; p < layout.parts.size(); ++p) {
        const WeightLayout &part = layout.parts[p];
        const uint64_t begin = head * layout.head_bytes() + layout.part_offset(p);
        const uint64_t used = part.scale_offset() + part.n_panels() * part.scale_panel_bytes();
        std::fill_n(is_used.begin() + static_cast<std::ptrdiff_t>(begin), used, 1);
      }
    }
    std::vector<uint8_t> bytes(layout.tensor_bytes());
    make_codes(PackedConstants(layout, scales), 1, 0, bytes);
    size_t n_unused = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (is_used[i] != 0) continue;
      ++n_unused;
      REQUIRE(bytes[i] == 0);
    }
    CHECK(n_unused > 0);
  }
}

TEST_CASE("scales and padding do not depend on where a tensor is cut") {
  const PackedLayout layout = heads_layout();
  const PackedConstants constants(layout, std::vector<float>{0.5f, 0.25f});
  std::vector<uint8_t> whole(layout.tensor_bytes(), 0xC3);
  constants.apply(0, whole);
  for (const size_t piece : {64u, 128u, 4096u, 10'048u}) {
    std::vector<uint8_t> pieces(layout.tensor_bytes(), 0xC3);
    for (size_t at = 0; at < pieces.size(); at += piece) {
      constants.apply(at, std::span(pieces).subspan(at, std::min(piece, pieces.size() - at)));
    }
    CHECK(pieces == whole);
  }
}

TEST_CASE("blocks and keys have nothing in common") {
  const PackedLayout layout = {PackedForm::kMatrix, 1, {int8_layout(1024, 1024, 64)}};
  const PackedConstants constants(layout, std::vector<float>{1.0f});
  const auto block = [&](uint64_t key, uint64_t number) {
    std::vector<uint8_t> bytes(kCodeBlockBytes);
    make_codes(constants, key, number, bytes);
    return bytes;
  };
  const std::vector<uint8_t> first = block(1, 0);
  CHECK(first == block(1, 0));
  for (const std::vector<uint8_t> &other : {block(1, 1), block(2, 0)}) {
    size_t n_equal = 0;
    for (size_t i = 0; i < first.size(); ++i) n_equal += first[i] == other[i] ? 1 : 0;
    CHECK(n_equal == Approx(static_cast<double>(first.size()) / 256).epsilon(0.2));
  }
}

TEST_CASE("matrices whose codes would have padding between them are refused") {
  const std::vector<float> scales = {1.0f};
  for (const WeightLayout &part : {int4_layout(17, 64, 64), int4_layout(16, 68, 64),
                                   int8_layout(15, 64, 64), int8_layout(16, 66, 64)}) {
    expect_failure(StatusCode::kInternal, {"random codes"}, [&] {
      PackedConstants({PackedForm::kMatrix, 1, {part}}, scales);
    });
  }
}

}  // namespace
