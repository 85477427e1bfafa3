// SPDX-License-Identifier: Apache-2.0
//
// Formats are recognised from types, shapes and byte counts; no data is read. The container does
// not name its formats, so its counts are tried against one table of layouts in the order in which
// its own writers resolve them; that order decides where two layouts have equal counts, unless a
// stamp names one of them. Packed tensors are described by their manifest (packed_source.cpp).

#include "lib/snapshot/weight_source.h"

#include <array>
#include <string_view>

#include "lib/base/checked_math.h"
#include "lib/base/number_formats.h"
#include "lib/snapshot/packed_source.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr uint64_t kGroups[] = {16, 32, 48, 64, 96, 128, 192, 256};
constexpr uint64_t kScaleBytes = 4;

// What a container tensor shows of itself.
struct Counts {
  uint64_t rows, columns;
  uint64_t value_bytes;
  uint64_t n_scales;
};

uint64_t product(uint64_t a, uint64_t b) {
  return checked_multiply(a, b, "tensor size");
}

uint64_t fp8_blocks(uint64_t rows, uint64_t columns) {
  return product(divide_up(rows, kFp8BlockWidth), divide_up(columns, kFp8BlockWidth));
}

// The smallest group width whose scale count matches, or 0.
uint32_t find_group(const Counts &counts) {
  for (const uint64_t group : kGroups) {
    if (counts.n_scales == product(counts.rows, divide_up(counts.columns, group))) {
      return static_cast<uint32_t>(group);
    }
  }
  return 0;
}

bool is_int8(const Counts &c) {
  return c.value_bytes == product(c.rows, c.columns);
}
bool is_int4(const Counts &c) {
  return c.value_bytes == product(c.rows, divide_up(c.columns, 2));
}
bool has_row_scales(const Counts &c) {
  return c.n_scales == c.rows;
}

struct Layout {
  const char *name;
  bool (*matches)(const Counts &counts);
  bool is_read;         // false: known, but not by this version
  StoredFormat format;  // where is_read
};

constexpr Layout kLayouts[] = {
    {"int8-row", [](const Counts &c) { return is_int8(c) && has_row_scales(c); }, true,
     StoredFormat::kInt8Row},
    {"fp8-e4m3-b128",
     [](const Counts &c) { return is_int8(c) && c.n_scales == fp8_blocks(c.rows, c.columns); },
     true, StoredFormat::kFp8Block},
    {"int4-row", [](const Counts &c) { return is_int4(c) && has_row_scales(c); }, true,
     StoredFormat::kInt4Row},
    {"int4-grouped",
     [](const Counts &c) { return is_int4(c) && c.n_scales > c.rows && find_group(c) != 0; }, true,
     StoredFormat::kInt4Grouped},
    {"int2-row",
     [](const Counts &c) {
       return c.value_bytes == product(c.rows, divide_up(c.columns, 4)) && has_row_scales(c);
     },
     false, StoredFormat::kF32},
    {"int3-g64",
     [](const Counts &c) {
       const uint64_t n_groups = product(c.rows, divide_up(c.columns, 64));
       return c.value_bytes == product(n_groups, 24) && c.n_scales == n_groups;
     },
     false, StoredFormat::kF32},
    {"e8-iq3-lattice",
     [](const Counts &c) {
       const uint64_t n_blocks = product(c.rows, divide_up(c.columns, 256));
       return c.value_bytes == product(n_blocks, 98) && c.n_scales == 1;
     },
     false, StoredFormat::kF32},
};

// Collects what messages need and builds the result.
class Resolver {
 public:
  Resolver(const TensorIndex &index, const std::string &name, uint64_t rows, uint64_t columns)
      : index_(index), info_(index.find(name)) {
    source_.name = name;
    source_.rows = rows;
    source_.columns = columns;
    if (info_ == nullptr) {
      throw_error(StatusCode::kIncomplete, "tensor %s is absent", printable(name).c_str());
    }
    source_.values = span_of(*info_);
  }

  WeightSource resolve_matrix() {
    if (const TensorInfo *scales = index_.find(source_.name + kContainerScales))
      return resolve_container(*scales);
    if (info_->type == TensorType::kF8E4M3) return resolve_fp8();
    if (info_->type == TensorType::kU8 || info_->type == TensorType::kI8) {
      throw_error(StatusCode::kIncomplete,
                  "tensor %s in %s is stored as bytes, but its scales %s.qs are absent",
                  printable(source_.name).c_str(), index_.file_of(*info_).c_str(),
                  printable(source_.name).c_str());
    }
    return resolve_plain({source_.rows, source_.columns});
  }

  WeightSource resolve_plain(const std::vector<uint64_t> &shape) {
    switch (info_->type) {
      case TensorType::kF32:
        source_.format = StoredFormat::kF32;
        break;
      case TensorType::kF16:
        source_.format = StoredFormat::kF16;
        break;
      case TensorType::kBF16:
        source_.format = StoredFormat::kBF16;
        break;
      default:
        fail(StatusCode::kUnsupported, std::string("is stored as ") +
                                           tensor_type_name(info_->type) +
                                           "; F32, F16 or BF16 is read here");
    }
    require_shape(*info_, shape);
    if (const char *suffix = find_scale_suffix(index_, source_.name)) {
      fail(StatusCode::kFormat, std::string("is stored as ") + tensor_type_name(info_->type) +
                                    " and has scales (" + suffix + ") all the same");
    }
    return std::move(source_);
  }

 private:
  static TensorSpan span_of(const TensorInfo &info) { return {info.file, info.offset, info.bytes}; }

  [[noreturn]] void fail(StatusCode code, const std::string &reason) const {
    throw_error(code, "tensor %s in %s %s", printable(source_.name).c_str(),
                printable(index_.file_of(*info_), 60).c_str(), reason.c_str());
  }

  void require_shape(const TensorInfo &info, const std::vector<uint64_t> &shape) const {
    if (info.shape == shape) return;
    fail(StatusCode::kFormat,
         "has the shape " + shape_text(info.shape) + "; the config implies " + shape_text(shape));
  }

  WeightSource resolve_fp8() {
    const TensorInfo *scales = index_.find(source_.name + kFp8Scales);
    if (scales == nullptr) {
      fail(StatusCode::kUnsupported,
           "is E4M3 without " + printable(source_.name.substr(source_.name.rfind('.') + 1)) +
               "_scale_inv; only E4M3 with scales per 128 x 128 block is read");
    }
    require_shape(*info_, {source_.rows, source_.columns});
    const std::vector<uint64_t> blocks = {divide_up(source_.rows, kFp8BlockWidth),
                                          divide_up(source_.columns, kFp8BlockWidth)};
    if (scales->shape != blocks) {
      fail(StatusCode::kFormat, "has block scales of shape " + shape_text(scales->shape) + "; " +
                                    shape_text(blocks) + " is needed");
    }
    if (scales->type != TensorType::kF32 && scales->type != TensorType::kBF16 &&
        scales->type != TensorType::kF8E8M0) {
      fail(StatusCode::kUnsupported, std::string("has block scales of type ") +
                                         tensor_type_name(scales->type) +
                                         "; F32, BF16 or F8_E8M0 is read");
    }
    source_.format = StoredFormat::kFp8Block;
    source_.scales = span_of(*scales);
    source_.scale_type = scales->type;
    return std::move(source_);
  }

  WeightSource resolve_container(const TensorInfo &scales) {
    if (info_->type != TensorType::kU8 && info_->type != TensorType::kI8) {
      fail(StatusCode::kFormat, std::string("has container scales (.qs) but is stored as ") +
                                    tensor_type_name(info_->type) + " instead of U8");
    }
    if (scales.type != TensorType::kF32) {
      fail(StatusCode::kUnsupported, std::string("has container scales of type ") +
                                         tensor_type_name(scales.type) + "; F32 is read");
    }
    const Counts counts{source_.rows, source_.columns, info_->bytes, scales.bytes / kScaleBytes};
    const Layout &layout = choose_layout(counts);
    if (!layout.is_read) {
      fail(StatusCode::kUnsupported, std::string("has the container format ") + layout.name +
                                         ", which this version does not read");
    }
    source_.format = layout.format;
    if (layout.format == StoredFormat::kInt4Grouped) source_.group = find_group(counts);
    source_.scales = span_of(scales);
    require_container_shape(*info_, "values");
    require_container_shape(scales, "scales");
    return std::move(source_);
  }

  // The stamp's layout where there is a stamp, else the first that fits. Stamps on routed experts
  // are not consulted, as the container's own readers do not.
  const Layout &choose_layout(const Counts &counts) const {
    const bool is_expert = source_.name.find(".experts.") != std::string::npos;
    const std::string_view stamp = is_expert ? "" : index_.stamped_format(source_.name);
    for (const Layout &layout : kLayouts) {
      if ((stamp.empty() || stamp == layout.name) && layout.matches(counts)) return layout;
    }
    const std::string found = std::to_string(counts.value_bytes) + " bytes and " +
                              std::to_string(counts.n_scales) + " scales, which for [" +
                              std::to_string(counts.rows) + ", " + std::to_string(counts.columns) +
                              "]";
    if (!stamp.empty()) {
      fail(StatusCode::kFormat, "is stamped '" + printable(stamp, 20) + "' and has " + found +
                                    " do not make up that format");
    }
    fail(StatusCode::kFormat, "has " + found + " fit no known format");
  }

  // Flat, or one row per matrix row (FP8 scales: per row of blocks).
  void require_container_shape(const TensorInfo &info, const char *what) const {
    if (info.shape.size() == 1) return;  // the product equals the bytes already
    const uint64_t rows = &info == info_ ? source_.rows : scale_rows(source_);
    if (info.shape.size() == 2 && info.shape[0] == rows) return;
    fail(StatusCode::kFormat, std::string("has ") + what + " of shape " + shape_text(info.shape) +
                                  "; flat or " + std::to_string(rows) + " rows is needed");
  }

  const TensorIndex &index_;
  const TensorInfo *info_;
  WeightSource source_;
};

}  // namespace

const char *stored_format_name(StoredFormat format) noexcept {
  switch (format) {
    case StoredFormat::kF32:
      return "f32";
    case StoredFormat::kF16:
      return "f16";
    case StoredFormat::kBF16:
      return "bf16";
    case StoredFormat::kFp8Block:
      return "fp8-e4m3-b128";
    case StoredFormat::kInt8Row:
      return "int8-row";
    case StoredFormat::kInt4Row:
      return "int4-row";
    case StoredFormat::kInt4Grouped:
      return "int4-grouped";
    case StoredFormat::kMxFp4:
      return "mxfp4";
    case StoredFormat::kPacked:
      return "packed";
  }
  return "unknown";
}

std::string describe_format(const WeightSource &source) {
  std::string name = stored_format_name(source.format);
  if (source.format != StoredFormat::kPacked) return name;
  return weight_format_name(source.packed.format) + ("-" + name);
}

uint64_t scale_columns(const WeightSource &source) noexcept {
  switch (source.format) {
    case StoredFormat::kFp8Block:
      return divide_up(source.columns, kFp8BlockWidth);
    case StoredFormat::kInt8Row:
    case StoredFormat::kInt4Row:
      return 1;
    case StoredFormat::kInt4Grouped:
      return divide_up(source.columns, source.group);
    case StoredFormat::kMxFp4:
      return source.columns / 32;
    default:
      return 0;
  }
}

uint64_t scale_rows(const WeightSource &source) noexcept {
  if (source.format == StoredFormat::kFp8Block) return divide_up(source.rows, kFp8BlockWidth);
  if (scale_columns(source) == 0) return 0;
  return source.stored_rows != 0 ? source.stored_rows : source.rows;
}

WeightSource find_matrix(const TensorIndex &index, const std::string &name, uint64_t rows,
                         uint64_t columns) {
  if (index.packed_layout(name) != nullptr) return find_packed_matrix(index, name, rows, columns);
  return Resolver(index, name, rows, columns).resolve_matrix();
}

WeightSource find_plain_matrix(const TensorIndex &index, const std::string &name, uint64_t rows,
                               uint64_t columns) {
  return Resolver(index, name, rows, columns).resolve_plain({rows, columns});
}

WeightSource find_vector(const TensorIndex &index, const std::string &name, uint64_t size) {
  return Resolver(index, name, 1, size).resolve_plain({size});
}

std::string find_absent_part(const TensorIndex &index, const std::string &name) {
  const TensorInfo *info = index.find(name);
  if (info == nullptr) return name;
  const bool is_bytes = info->type == TensorType::kU8 || info->type == TensorType::kI8;
  if (!is_bytes || info->layout >= 0) return {};
  std::string scales = name + kContainerScales;
  return index.find(scales) == nullptr ? scales : std::string();
}

std::string values_name(const WeightSource &source) {
  return source.format == StoredFormat::kMxFp4 ? source.name + kMxFp4Blocks : source.name;
}

std::string scales_name(const TensorIndex &index, const WeightSource &source) {
  if (source.scales.bytes == 0) return {};
  if (source.format == StoredFormat::kMxFp4) return source.name + kMxFp4Scales;
  for (const char *suffix : kScaleSuffixes) {
    const TensorInfo *info = index.find(source.name + suffix);
    if (info != nullptr && info->file == source.scales.file &&
        info->offset == source.scales.offset) {
      return source.name + suffix;
    }
  }
  throw_error(StatusCode::kInternal, "no name for the scales of %s", source.name.c_str());
}

const char *find_scale_suffix(const TensorIndex &index, const std::string &name) {
  for (const char *suffix : kScaleSuffixes) {
    if (index.find(name + suffix) != nullptr) return suffix;
  }
  return nullptr;
}

}  // namespace colibri
