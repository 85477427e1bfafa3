// SPDX-License-Identifier: Apache-2.0
//
// WeightSource: where one matrix or vector of the model lies on disk and in which number format,
// after every check against the shape that its use implies. The only place that knows how formats
// are recognised: plain F32/F16/BF16, block FP8 (`X` + `X_scale_inv`), the community container
// (`X` + `X.qs`; formats int8-row, int4-row, int4-grouped, fp8-e4m3-b128 by byte counts or by the
// `colibri.fmt` stamp), MXFP4 (`X_blocks` + `X_scales`), and matrices that a packed snapshot's
// manifest describes. Other formats of the container (2-bit, 3-bit, lattice) are recognised and
// refused by name: Error(kUnsupported).

#pragma once

#include <cstdint>
#include <string>

#include "lib/base/weight_layout.h"
#include "lib/snapshot/tensor_index.h"

namespace colibri {

// How a matrix is stored on disk: row-major (rows are outputs O, columns are inputs I) or packed.
enum class StoredFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kFp8Block,  // one byte per weight, float32 scale per 128 x 128 block, partial blocks at the edges
  kInt8Row,   // signed byte, float32 scale per row
  kInt4Row,  // ceil(I/2) bytes a row, low nibble = even column, value = nibble - 8; one scale a row
  kInt4Grouped,  // as kInt4Row; float32 scales [O][ceil(I/group)]
  kMxFp4,  // ceil(I/2) bytes a row of E2M1 codes, low nibble = even column; an exponent byte per 32
  kPacked,  // as WeightSource::packed says, in the bytes that memory has
};
const char *stored_format_name(StoredFormat format) noexcept;  // "bf16", "int4-grouped", "packed"

// What follows the name of a row-major matrix in the names of its scales.
constexpr const char *kContainerScales = ".qs";
constexpr const char *kFp8Scales = "_scale_inv";
constexpr const char *kScaleSuffixes[] = {kContainerScales, kFp8Scales};
// MXFP4: what follows the common part of two names.
constexpr const char *kMxFp4Blocks = "_blocks";
constexpr const char *kMxFp4Scales = "_scales";

struct TensorSpan {
  uint32_t file = 0;  // index into TensorIndex::files()
  uint64_t offset = 0;
  uint64_t bytes = 0;  // 0: absent

  bool operator==(const TensorSpan &) const = default;
};

struct WeightSource {
  std::string name;
  StoredFormat format = StoredFormat::kF32;
  uint64_t rows = 0;  // 1 for a vector
  uint64_t columns = 0;
  uint32_t group = 0;  // columns per scale for kInt4Grouped; 0 otherwise
  // Which rows of what is stored in `values` these are: first_row + i * row_step. Not 0 and 1 only
  // where gate and up alternate in a tensor that holds both, of kF32, kF16, kBF16 or kMxFp4. Rows
  // that follow one another have a span of their own.
  uint64_t first_row = 0;
  uint64_t row_step = 1;
  // Plain formats: stored [columns][stored rows], inputs first. For a vector: nothing.
  bool is_transposed = false;
  uint64_t stored_rows = 0;  // rows that `values` holds; 0: `rows`
  TensorSpan values;         // kPacked: this matrix's values and scales
  TensorSpan scales;         // absent for plain formats and kPacked
  // kF32, kBF16, or kF8E8M0 (one exponent byte: value 2^(byte - 127)); the last two only with
  // kFp8Block. kMxFp4: kF8E8M0, also where the file says U8.
  TensorType scale_type = TensorType::kF32;
  WeightLayout packed;  // kPacked; its columns are `rows`, its depth is `columns`
  bool is_present() const noexcept { return values.bytes != 0; }
  uint64_t stored_bytes() const noexcept { return values.bytes + scales.bytes; }
};

// As stored_format_name(), with what is packed: "int4-packed".
std::string describe_format(const WeightSource &source);

// Scales of one row of scales (per matrix row, or per row of FP8 blocks), and rows of scales. 0 for
// plain formats and kPacked.
uint64_t scale_columns(const WeightSource &source) noexcept;
uint64_t scale_rows(const WeightSource &source) noexcept;

// Finds `name` ([rows, columns], exactly) and resolves its format. Throws Error:
// kIncomplete   the tensor, or the scales its form needs, is absent
// kFormat       shape or byte counts fit no layout: names tensor, file, both counts
// kUnsupported  a known format that this version does not read
WeightSource find_matrix(const TensorIndex &index, const std::string &name, uint64_t rows,
                         uint64_t columns);
// A matrix that must be stored as F32, F16 or BF16 (routers).
WeightSource find_plain_matrix(const TensorIndex &index, const std::string &name, uint64_t rows,
                               uint64_t columns);
// A vector of `size` elements stored as F32, F16 or BF16.
WeightSource find_vector(const TensorIndex &index, const std::string &name, uint64_t size);

// A part of a tensor that holds all experts of a layer. `expert` of n_experts equal slices of
// [n_experts, ..]; the slice is [rows_of_slice, columns], or [columns, rows_of_slice] if
// transposed.
struct FusedPart {
  std::string name;  // of a plain tensor, or the common part of the two names of MXFP4
  uint64_t n_experts = 0, expert = 0;
  uint64_t stored_rows = 0, columns = 0;
  uint64_t first_row = 0, row_step = 1, rows = 0;
  bool is_transposed = false;  // MXFP4 never is
};
// As find_matrix(). The whole tensor must have exactly the shape that the part implies.
WeightSource find_fused_matrix(const TensorIndex &index, const FusedPart &part);
// A vector: columns is 1, the tensor [n_experts, stored_rows].
WeightSource find_fused_vector(const TensorIndex &index, const FusedPart &part);

// Name of the tensor with the values of `source`: its name, or for MXFP4 that of the codes.
std::string values_name(const WeightSource &source);
// Name of the tensor with the scales of `source`; empty if it has none.
std::string scales_name(const TensorIndex &index, const WeightSource &source);

// Name of the tensor that is absent if `name` is to be read: `name` itself, its scales, or empty if
// none is.
std::string find_absent_part(const TensorIndex &index, const std::string &name);

// Suffix of the scales that stand beside tensor `name`; nullptr if none do.
const char *find_scale_suffix(const TensorIndex &index, const std::string &name);

// Reads a plain vector or matrix (F32, F16, BF16) and widens it to float32: rows * columns values.
Status read_as_float(const TensorIndex &index, const WeightSource &source,
                     float *destination) noexcept;
// Reads the scales widened to float32: scale_rows * scale_columns values. Nothing for plain
// formats.
Status read_scales(const TensorIndex &index, const WeightSource &source,
                   float *destination) noexcept;
// Reads and dequantises any format to row-major float32 [rows, columns]: value = q * scale, one
// float32 product. Off the step path; allocates; throws Error(kIo).
void read_dequantised(const TensorIndex &index, const WeightSource &source, float *destination);

}  // namespace colibri
