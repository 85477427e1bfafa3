// SPDX-License-Identifier: Apache-2.0
//
// The packed form of a weight matrix: one layout that every instruction set (and later every
// device) reads.
//
// Words: a matrix maps `depth` inputs to `columns` outputs (a checkpoint row is a column here).
// Columns are cut into panels of 16; a panel holds its values for all depths, so that one output
// lives in one lane and its sum over the depth is one ascending chain.

#pragma once

#include <cstddef>
#include <cstdint>

namespace colibri {

enum class WeightFormat : uint8_t { kF32, kBF16, kF16, kFp8, kInt8, kInt4, kMxFp4 };
// "f32", "bf16", "f16", "fp8", "int8", "int4", "mxfp4".
const char *weight_format_name(WeightFormat format) noexcept;

// Number format of scales. BF16 is what colibri_convert() writes: 6 % of an INT4 matrix in groups
// of 64 instead of 11 %, and codes are chosen for the rounded scale, so that rounding it costs
// nothing measurable (docs/accuracy.md). F32 keeps the scales of others as they are. E8M0 is one
// exponent byte, value 2^(byte - 127), 255 a NaN: MXFP4 alone.
enum class ScaleType : uint8_t { kF32, kBF16, kE8M0 };
const char *scale_type_name(ScaleType type) noexcept;  // "f32", "bf16", "e8m0"
constexpr size_t scale_type_bytes(ScaleType type) noexcept {
  return type == ScaleType::kE8M0 ? 1 : type == ScaleType::kBF16 ? 2 : 4;
}

constexpr size_t kPanelColumns = 16;
// Depths per activation scale when the weights have one scale for the whole row.
constexpr uint32_t kRowScaleActivationGroup = 64;
// Depths per scale of MXFP4.
constexpr uint32_t kMxFp4Group = 32;

// A panel by format:
//   plain (F32, BF16, F16)  [depth][16] elements
//   FP8 (E4M3)              [depth][16] bytes
//   INT8                    lines of 64 bytes = 4 depths; byte 4*c + j of a line is column c,
//                           depth j, stored unsigned as value + 128
//   INT4                    lines of 64 bytes = 8 depths; byte 4*c + j of a line holds column c:
//                           depth j in the low nibble, depth 4 + j in the high one, each stored
//                           unsigned as value + 8
//   MXFP4                   lines as INT4, each nibble an E2M1 code as it is stored: codes 0..7 are
//                           0, 0.5, 1, 1.5, 2, 3, 4, 6, codes 8..15 their negatives
//
// Depth is padded to whole lines (INT8: 4, INT4 and MXFP4: 8) and columns to whole panels with zero
// weights (128, 8, code 0). Scales (FP8, INT8, INT4, MXFP4) stand behind the values of all panels
// at the next multiple of 64 bytes: [panel][scale group][16] of scale_type, padded to a multiple of
// 64 bytes. A scale group is `group` depths, or the whole depth if has_row_scale. docs/formats.md
// has the same for readers of files.
struct WeightLayout {
  WeightFormat format = WeightFormat::kF32;
  uint32_t columns = 0;  // outputs
  uint32_t depth = 0;    // inputs
  uint32_t group = 0;    // depths per group: FP8 128; INT4/INT8 a multiple of 16; MXFP4 32; plain 0
  // INT4/INT8: one scale per column; `group` is then only the group of the activations.
  bool has_row_scale = false;
  ScaleType scale_type = ScaleType::kF32;  // FP8: always kF32; MXFP4: always kE8M0

  bool operator==(const WeightLayout &) const = default;
  // Weights that integer activations are multiplied with exactly, group by group. MXFP4 is one of
  // them: its doubled values are whole numbers.
  bool is_integer() const noexcept {
    return format == WeightFormat::kInt8 || format == WeightFormat::kInt4 ||
           format == WeightFormat::kMxFp4;
  }
  bool has_scales() const noexcept { return is_integer() || format == WeightFormat::kFp8; }
  size_t n_panels() const noexcept { return (columns + kPanelColumns - 1) / kPanelColumns; }
  size_t panel_bytes() const noexcept;        // values of one panel
  size_t scale_groups() const noexcept;       // per column; 0 for plain formats
  size_t scale_panel_bytes() const noexcept;  // scales of one panel
  size_t scale_offset() const noexcept;       // from the start of the matrix
  size_t total_bytes() const noexcept;        // values and scales, a multiple of 64
};

// INT8 or INT4 in groups with BF16 scales: what this library quantises to.
WeightLayout quantised_layout(WeightFormat format, uint64_t columns, uint64_t depth,
                              uint32_t group) noexcept;

// A packed matrix in memory. A view: owns nothing.
struct PackedMatrix {
  WeightLayout layout;
  const uint8_t *values = nullptr;  // 64-byte aligned; scales at values + layout.scale_offset()

  // Of layout.scale_type; nullptr for plain formats.
  const uint8_t *scales() const noexcept {
    return layout.has_scales() ? values + layout.scale_offset() : nullptr;
  }
};

// What is packed: a matrix as checkpoints store it, or a part of one. INT4 rows are
// ceil(depth/2) bytes, low nibble = even depth, value + 8. INT8 is signed. MXFP4 rows are depth/2
// bytes of codes, low nibble = even depth. FP8 scales: float32
// [ceil(rows_of_tensor/128)][ceil(depth/128)], already widened. Pointers are those of the whole
// tensor (of one expert's part, where a tensor holds all) and may have any alignment.
struct PackingSource {
  const uint8_t *values = nullptr;  // tensor row 0
  const float *scales = nullptr;    // FP8, INT: [rows] or [rows][ceil(depth/group)], from row 0
  const uint8_t *scale_bytes = nullptr;  // MXFP4: [rows][ceil(depth/32)] exponents
  uint64_t first_row = 0;  // tensor row that becomes column 0; may lie inside an FP8 block
  uint64_t row_step = 1;   // column c is tensor row first_row + c * row_step; not 1: gate and up
                           // alternate (plain and MXFP4 only)
  // Plain formats only: stored [depth][n_tensor_rows], inputs first.
  bool is_transposed = false;
  uint64_t n_tensor_rows = 0;  // is_transposed only
};

// Writes layout.total_bytes() bytes at `destination` (64-byte aligned), padding included; the
// scales of padding columns are 0. Scales of a layout with BF16 scales must be exact in BF16.
// Values are moved, never rounded. All inputs are valid by contract.
void pack_matrix(const WeightLayout &layout, const PackingSource &source,
                 uint8_t *destination) noexcept;

// The weight of one column at one depth as float32: float(q) * scale rounded, or the widened value.
// Exact for MXFP4.
float unpack_weight(const PackedMatrix &matrix, size_t column, size_t depth) noexcept;

}  // namespace colibri
