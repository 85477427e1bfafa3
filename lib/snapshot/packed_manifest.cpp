// SPDX-License-Identifier: Apache-2.0
//
// The manifest as JSON, both ways. Reading bounds every size before it is used: once a layout is
// accepted, none of the sizes of PackedLayout and WeightLayout can overflow.

#include "lib/snapshot/packed_manifest.h"

#include <algorithm>
#include <optional>

#include "lib/base/checked_math.h"
#include "lib/base/hex_text.h"
#include "lib/base/number_formats.h"
#include "lib/snapshot/json.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32,  WeightFormat::kBF16, WeightFormat::kF16,
                                     WeightFormat::kFp8,  WeightFormat::kInt8, WeightFormat::kInt4,
                                     WeightFormat::kMxFp4};
constexpr PackedForm kForms[] = {PackedForm::kMatrix, PackedForm::kExpert, PackedForm::kHeads};
constexpr uint64_t kMaxExtent = INT32_MAX;
constexpr uint64_t kMaxHeads = 65536;
constexpr uint64_t kMaxGroup = 256;
constexpr uint64_t kGroupStep = 16;
constexpr size_t kMaxFileName = 255;

// Of an expert that has biases.
constexpr size_t kPartsWithBiases = 6;

size_t part_count(PackedForm form) noexcept {
  if (form == PackedForm::kExpert) return 3;
  return form == PackedForm::kHeads ? 2 : 1;
}

// An upper bound of a matrix with its scales; throws where it does not fit 64 bits. A padded weight
// takes at most 4 bytes, and its share of the scales is less.
uint64_t bound_matrix_bytes(const WeightLayout &layout) {
  const uint64_t columns = checked_align_up(layout.columns, 64, "columns");
  const uint64_t depth = checked_align_up(layout.depth, 64, "depth");
  return checked_multiply(checked_multiply(columns, depth, "matrix"), 8, "matrix");
}

// An upper bound of a tensor, likewise.
uint64_t bound_tensor_bytes(const PackedLayout &layout) {
  uint64_t bytes = 0;
  for (const WeightLayout &part : layout.parts) {
    bytes = checked_add(bytes, bound_matrix_bytes(part), "parts");
  }
  bytes = checked_multiply(bytes, layout.n_heads, "heads");
  return checked_align_up(bytes, kPackedAlignment, "tensor");
}

bool is_bias_of(const WeightLayout &bias, const WeightLayout &matrix) noexcept {
  return bias.format == WeightFormat::kF32 && bias.depth == 1 && bias.columns == matrix.columns;
}

// Do the extents of the parts fit each other as the form says?
bool fits_form(const PackedLayout &layout) noexcept {
  const std::vector<WeightLayout> &parts = layout.parts;
  switch (layout.form) {
    case PackedForm::kMatrix:
      return true;
    case PackedForm::kExpert:
      return parts[0].columns == parts[1].columns && parts[0].depth == parts[1].depth &&
             parts[2].columns == parts[0].depth && parts[2].depth == parts[0].columns &&
             (parts.size() == 3 ||
              (is_bias_of(parts[3], parts[0]) && is_bias_of(parts[4], parts[1]) &&
               is_bias_of(parts[5], parts[2])));
    case PackedForm::kHeads:
      return parts[0].columns == parts[1].depth;
  }
  return false;
}

void write_layout(const PackedLayout &layout, JsonWriter *json) {
  json->begin_object().key("form").value(packed_form_name(layout.form));
  if (layout.form == PackedForm::kHeads) json->key("heads").value(layout.n_heads);
  json->key("parts").begin_array();
  for (const WeightLayout &part : layout.parts) {
    json->begin_object().key("format").value(weight_format_name(part.format));
    json->key("columns").value(part.columns).key("depth").value(part.depth);
    if (part.has_scales()) {
      json->key("group").value(part.has_row_scale ? 0 : part.group);
      json->key("scales").value(scale_type_name(part.scale_type));
    }
    json->end_object();
  }
  json->end_array().end_object();
}

void write_options(const PackedOptions &options, JsonWriter *json) {
  json->begin_object().key("experts").value(options.experts).key("dense").value(options.dense);
  json->key("embedding").value(options.embedding).key("head").value(options.head);
  json->key("group").value(options.group).key("scales").value(options.scales).end_object();
}

// One manifest, read from the top. `place_` is where reading stands, for messages.
class ManifestReader {
 public:
  ManifestReader(const std::string &file, JsonValue root) : file_(file), root_(root) {}

  PackedManifest read() {
    place_ = "the manifest";
    if (!root_.is_object()) fail("is not an object");
    read_version();
    PackedManifest manifest;
    place_ = "source";
    manifest.source_identity = read_checksum(root_.get("source").get("identity"), "identity");
    manifest.model_type = read_text(root_.get("source"), "model_type");
    read_options(&manifest.options);
    read_counts(&manifest.counts);
    read_files(&manifest.files);
    const JsonValue layouts = read_list("layouts");
    for (size_t i = 0; i < layouts.size(); ++i) {
      place_ = "layout " + std::to_string(i);
      manifest.layouts.push_back(read_layout(layouts.at(i)));
    }
    read_tensors(manifest.layouts.size(), &manifest.tensors);
    return manifest;
  }

 private:
  [[noreturn]] void fail(const std::string &reason) const {
    throw_error(StatusCode::kFormat, "%s: %s: %s %s", file_.c_str(), kPackedManifestKey,
                place_.c_str(), reason.c_str());
  }

  void read_version() const {
    const auto version = root_.get("version").as_unsigned();
    if (!version) fail("has no version number");
    if (*version == kPackedVersion) return;
    throw_error(StatusCode::kUnsupported,
                "%s: %s has version %llu; this library reads version %u: convert the model again "
                "or use a newer library",
                file_.c_str(), kPackedManifestKey, static_cast<unsigned long long>(*version),
                kPackedVersion);
  }

  std::string read_text(JsonValue object, const char *key) const {
    const auto text = object.get(key).as_string();
    if (!text) fail(std::string("has no text ") + key);
    return std::string(*text);
  }

  uint64_t read_number(JsonValue object, const char *key, uint64_t least, uint64_t most) const {
    const auto number = object.get(key).as_unsigned();
    if (!number) fail(std::string("has no whole number ") + key);
    if (*number < least || *number > most) {
      fail(std::string("has ") + key + " " + std::to_string(*number) + "; it must be " +
           std::to_string(least) + ".." + std::to_string(most));
    }
    return *number;
  }

  uint64_t read_checksum(JsonValue value, const char *what) const {
    const auto text = value.as_string();
    const auto number = text ? parse_hex_text(*text) : std::nullopt;
    if (!number) fail(std::string("has no ") + what + " of 16 hexadecimal digits (0-9, a-f)");
    return *number;
  }

  JsonValue read_list(const char *key) {
    place_ = key;
    const JsonValue list = root_.get(key);
    if (!list.is_array()) fail("is not a list");
    return list;
  }

  JsonValue read_object(const char *key) {
    place_ = key;
    const JsonValue object = root_.get(key);
    if (!object.is_object()) fail("is not an object");
    return object;
  }

  void read_options(PackedOptions *options) {
    const JsonValue object = read_object("options");
    options->experts = read_text(object, "experts");
    options->dense = read_text(object, "dense");
    options->embedding = read_text(object, "embedding");
    options->head = read_text(object, "head");
    options->group = static_cast<uint32_t>(read_number(object, "group", 0, UINT32_MAX));
    options->scales = read_text(object, "scales");
  }

  void read_counts(std::map<std::string, FormatBytes> *counts) {
    const JsonValue object = read_object("counts");
    for (size_t i = 0; i < object.size(); ++i) {
      const std::string_view name = object.key_at(i);
      place_ = "counts of " + printable(name, 40);
      if (!find_format(name)) fail("name no known format");
      FormatBytes *entry = &(*counts)[std::string(name)];
      entry->n_tensors = read_number(object.at(i), "tensors", 0, UINT64_MAX);
      entry->bytes = read_number(object.at(i), "bytes", 0, UINT64_MAX);
    }
  }

  // Side files are opened by these names, so each must be one name in the folder.
  void read_files(std::vector<std::pair<std::string, uint64_t>> *files) {
    const JsonValue object = read_object("files");
    for (size_t i = 0; i < object.size(); ++i) {
      const std::string_view name = object.key_at(i);
      place_ = "side file " + printable(name, 80);
      const bool is_plain =
          !name.empty() && name != "." && name != ".." && name.size() <= kMaxFileName &&
          name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
      if (!is_plain) fail("is refused: it must be one plain name in the folder");
      files->emplace_back(name, read_checksum(object.at(i), "checksum"));
    }
  }

  static std::optional<WeightFormat> find_format(std::string_view name) noexcept {
    for (const WeightFormat format : kFormats) {
      if (name == weight_format_name(format)) return format;
    }
    return std::nullopt;
  }

  void read_scales(JsonValue part, WeightLayout *layout) const {
    const uint64_t group = read_number(part, "group", 0, kMaxGroup);
    const std::string type = read_text(part, "scales");
    if (layout->format == WeightFormat::kMxFp4) {
      if (group != kMxFp4Group || type != scale_type_name(ScaleType::kE8M0)) {
        fail("is mxfp4 with group " + std::to_string(group) + " and " + printable(type, 20) +
             " scales; it must have group " + std::to_string(kMxFp4Group) + " and e8m0 scales");
      }
      layout->group = kMxFp4Group;
      layout->scale_type = ScaleType::kE8M0;
      return;
    }
    if (type != "f32" && type != "bf16") fail("has unknown scales '" + printable(type, 20) + "'");
    layout->scale_type = type == "bf16" ? ScaleType::kBF16 : ScaleType::kF32;
    layout->group = static_cast<uint32_t>(group);
    if (layout->format == WeightFormat::kFp8) {
      if (group != kFp8BlockWidth || layout->scale_type != ScaleType::kF32) {
        fail("is fp8 with group " + std::to_string(group) + " and " + type +
             " scales; it must have group " + std::to_string(kFp8BlockWidth) + " and f32 scales");
      }
      return;
    }
    layout->has_row_scale = group == 0;
    if (layout->has_row_scale) layout->group = kRowScaleActivationGroup;
    if (group % kGroupStep != 0) {
      fail("has group " + std::to_string(group) + "; it must be 0 or a multiple of " +
           std::to_string(kGroupStep) + " up to " + std::to_string(kMaxGroup));
    }
  }

  WeightLayout read_part(JsonValue part) const {
    WeightLayout layout;
    const std::string name = read_text(part, "format");
    const auto format = find_format(name);
    if (!format) fail("has unknown format '" + printable(name, 20) + "'");
    layout.format = *format;
    layout.columns = static_cast<uint32_t>(read_number(part, "columns", 1, kMaxExtent));
    layout.depth = static_cast<uint32_t>(read_number(part, "depth", 1, kMaxExtent));
    if (layout.has_scales()) read_scales(part, &layout);
    return layout;
  }

  PackedLayout read_layout(JsonValue object) const {
    PackedLayout layout;
    const std::string name = read_text(object, "form");
    const auto *const form =
        std::find_if(std::begin(kForms), std::end(kForms),
                     [&](PackedForm known) { return name == packed_form_name(known); });
    if (form == std::end(kForms)) fail("has unknown form '" + printable(name, 20) + "'");
    layout.form = *form;
    if (layout.form == PackedForm::kHeads) {
      layout.n_heads = static_cast<uint32_t>(read_number(object, "heads", 1, kMaxHeads));
    }
    const JsonValue parts = object.get("parts");
    const bool may_have_biases = layout.form == PackedForm::kExpert;
    if (!parts.is_array() || (parts.size() != part_count(layout.form) &&
                              !(may_have_biases && parts.size() == kPartsWithBiases))) {
      fail("of form " + name + " has no list of " + std::to_string(part_count(layout.form)) +
           " parts");
    }
    for (size_t i = 0; i < parts.size(); ++i) layout.parts.push_back(read_part(parts.at(i)));
    if (!fits_form(layout)) {
      fail("of form " + name + " has parts whose sizes do not fit each other");
    }
    try {
      bound_tensor_bytes(layout);
    } catch (const Error &) {
      fail("has sizes whose product overflows 64 bits");
    }
    return layout;
  }

  void read_tensors(size_t n_layouts, std::vector<PackedTensor> *tensors) {
    const JsonValue object = read_object("tensors");
    tensors->reserve(object.size());
    for (size_t i = 0; i < object.size(); ++i) {
      const JsonValue entry = object.at(i);
      place_ = "tensor " + printable(object.key_at(i));
      const auto layout = entry.at(0).as_integer();
      if (!entry.is_array() || entry.size() != 2 || !layout) {
        fail("is not a list of a layout number and a checksum");
      }
      if (*layout < -1 || *layout >= static_cast<int64_t>(n_layouts)) {
        fail("has layout " + std::to_string(*layout) + "; there are " + std::to_string(n_layouts));
      }
      tensors->push_back({std::string(object.key_at(i)), static_cast<int32_t>(*layout),
                          read_checksum(entry.at(1), "checksum")});
    }
  }

  const std::string &file_;
  JsonValue root_;
  std::string place_;
};

}  // namespace

const char *packed_form_name(PackedForm form) noexcept {
  switch (form) {
    case PackedForm::kMatrix:
      return "matrix";
    case PackedForm::kExpert:
      return "expert";
    case PackedForm::kHeads:
      return "heads";
  }
  return "unknown";
}

uint64_t PackedLayout::part_offset(size_t part) const noexcept {
  uint64_t offset = 0;
  for (size_t i = 0; i < part; ++i) offset += parts[i].total_bytes();
  return offset;
}

uint64_t PackedLayout::head_bytes() const noexcept {
  return part_offset(parts.size());
}

uint64_t PackedLayout::tensor_bytes() const noexcept {
  // bounded: of what is read by bound_tensor_bytes(), of what is written by the source's own sizes
  return divide_up(n_heads * head_bytes(), kPackedAlignment) * kPackedAlignment;
}

std::string write_packed_manifest(const PackedManifest &manifest) {
  JsonWriter json;
  json.begin_object().key("version").value(kPackedVersion);
  json.key("source").begin_object();
  json.key("identity").value(hex_text(manifest.source_identity));
  json.key("model_type").value(manifest.model_type).end_object();
  write_options(manifest.options, &json.key("options"));
  json.key("counts").begin_object();
  for (const auto &[name, count] : manifest.counts) {
    json.key(name).begin_object().key("tensors").value(count.n_tensors);
    json.key("bytes").value(count.bytes).end_object();
  }
  json.end_object().key("files").begin_object();
  for (const auto &[name, checksum] : manifest.files) json.key(name).value(hex_text(checksum));
  json.end_object().key("layouts").begin_array();
  for (const PackedLayout &layout : manifest.layouts) write_layout(layout, &json);
  json.end_array().key("tensors").begin_object();
  for (const PackedTensor &tensor : manifest.tensors) {
    json.key(tensor.name).begin_array().value(tensor.layout);
    json.value(hex_text(tensor.checksum)).end_array();
  }
  json.end_object().end_object();
  return json.text();
}

PackedManifest parse_packed_manifest(std::string_view json, const std::string &file) {
  const JsonDocument document = JsonDocument::parse(json, file + " (" + kPackedManifestKey + ")");
  return ManifestReader(file, document.root()).read();
}

}  // namespace colibri
