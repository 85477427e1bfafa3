// SPDX-License-Identifier: Apache-2.0
//
// Parts of tensors that hold all experts of a layer. Rows of a part that follow one another in the
// file get a span of their own, so that whoever reads them need not know what they are a part of;
// only rows that alternate, and transposed ones, are described within the expert's whole slice.

#include "lib/base/checked_math.h"
#include "lib/snapshot/printable.h"
#include "lib/snapshot/weight_source.h"

namespace colibri {
namespace {

constexpr uint64_t kMxFp4Depths = 32;      // weights of a block
constexpr uint64_t kMxFp4BlockBytes = 16;  // their codes

class FusedResolver {
 public:
  FusedResolver(const TensorIndex &index, const FusedPart &part) : index_(index), part_(part) {
    source_.name = part.name;
    source_.rows = part.rows;
    source_.columns = part.columns;
    source_.is_transposed = part.is_transposed;
  }

  WeightSource resolve_plain(const std::vector<uint64_t> &shape) {
    const TensorInfo &info = require(part_.name);
    source_.format = plain_format(info);
    require_shape(info, part_.name, shape);
    if (const char *suffix = find_scale_suffix(index_, part_.name)) {
      fail(StatusCode::kFormat, info, part_.name,
           std::string("is stored as ") + tensor_type_name(info.type) + " and has scales (" +
               suffix + ") all the same");
    }
    place_rows();
    // bounded: require_shape() has compared it with the tensor
    source_.values = slice(info, part_.columns * tensor_type_bytes(info.type));
    return std::move(source_);
  }

  WeightSource resolve_mxfp4() {
    const std::string blocks_name = part_.name + kMxFp4Blocks;
    const std::string scales_name = part_.name + kMxFp4Scales;
    const TensorInfo &blocks = require(blocks_name);
    const TensorInfo &scales = require(scales_name);
    if (part_.columns % kMxFp4Depths != 0) {
      fail(StatusCode::kFormat, blocks, blocks_name,
           "has " + std::to_string(part_.columns) +
               " inputs by the config; MXFP4 needs a multiple of 32");
    }
    require_bytes(blocks, blocks_name, false);
    require_bytes(scales, scales_name, true);
    const uint64_t n_blocks = part_.columns / kMxFp4Depths;
    require_shape(blocks, blocks_name,
                  {part_.n_experts, part_.stored_rows, n_blocks, kMxFp4BlockBytes});
    require_shape(scales, scales_name, {part_.n_experts, part_.stored_rows, n_blocks});
    source_.format = StoredFormat::kMxFp4;
    source_.scale_type = TensorType::kF8E8M0;
    place_rows();
    // bounded: require_shape() has compared it with the tensor
    source_.values = slice(blocks, n_blocks * kMxFp4BlockBytes);
    source_.scales = slice(scales, n_blocks);
    return std::move(source_);
  }

 private:
  const TensorInfo &require(const std::string &name) const {
    const TensorInfo *info = index_.find(name);
    if (info != nullptr) return *info;
    throw_error(StatusCode::kIncomplete, "tensor %s is absent", printable(name).c_str());
  }

  [[noreturn]] void fail(StatusCode code, const TensorInfo &info, const std::string &name,
                         const std::string &reason) const {
    throw_error(code, "tensor %s in %s %s", printable(name).c_str(),
                printable(index_.file_of(info), 60).c_str(), reason.c_str());
  }

  StoredFormat plain_format(const TensorInfo &info) const {
    switch (info.type) {
      case TensorType::kF32:
        return StoredFormat::kF32;
      case TensorType::kF16:
        return StoredFormat::kF16;
      case TensorType::kBF16:
        return StoredFormat::kBF16;
      default:
        fail(StatusCode::kUnsupported, info, part_.name,
             std::string("holds all experts of a layer as ") + tensor_type_name(info.type) +
                 "; F32, F16 or BF16 is read here");
    }
  }

  void require_shape(const TensorInfo &info, const std::string &name,
                     const std::vector<uint64_t> &shape) const {
    if (info.shape == shape) return;
    fail(StatusCode::kFormat, info, name,
         "has the shape " + shape_text(info.shape) + "; the config implies " + shape_text(shape));
  }

  void require_bytes(const TensorInfo &info, const std::string &name, bool may_be_exponents) const {
    if (info.type == TensorType::kU8) return;
    if (may_be_exponents && info.type == TensorType::kF8E8M0) return;
    fail(StatusCode::kUnsupported, info, name,
         std::string("is a part of MXFP4 weights and stored as ") + tensor_type_name(info.type) +
             "; U8 is read");
  }

  bool has_own_span() const { return part_.row_step == 1 && !part_.is_transposed; }

  void place_rows() {
    if (has_own_span()) return;
    source_.first_row = part_.first_row;
    source_.row_step = part_.row_step;
    source_.stored_rows = part_.stored_rows;
  }

  // The bytes of the part, or of the expert's whole slice. The whole has been compared with the
  // shape, so nothing here can overflow.
  TensorSpan slice(const TensorInfo &info, uint64_t row_bytes) const {
    const uint64_t slice_bytes = info.bytes / part_.n_experts;
    // bounded: inside the tensor
    const uint64_t offset = info.offset + part_.expert * slice_bytes;
    if (!has_own_span()) return {info.file, offset, slice_bytes};
    // bounded: inside the tensor
    return {info.file, offset + part_.first_row * row_bytes, part_.rows * row_bytes};
  }

  const TensorIndex &index_;
  const FusedPart &part_;
  WeightSource source_;
};

}  // namespace

WeightSource find_fused_matrix(const TensorIndex &index, const FusedPart &part) {
  FusedResolver resolver(index, part);
  if (index.find(part.name) == nullptr && index.find(part.name + kMxFp4Blocks) != nullptr) {
    return resolver.resolve_mxfp4();
  }
  if (part.is_transposed) {
    return resolver.resolve_plain({part.n_experts, part.columns, part.stored_rows});
  }
  return resolver.resolve_plain({part.n_experts, part.stored_rows, part.columns});
}

WeightSource find_fused_vector(const TensorIndex &index, const FusedPart &part) {
  FusedPart vector = part;
  vector.columns = 1;
  vector.is_transposed = false;
  return FusedResolver(index, vector).resolve_plain({vector.n_experts, vector.stored_rows});
}

}  // namespace colibri
