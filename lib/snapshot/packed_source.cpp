// SPDX-License-Identifier: Apache-2.0
//
// Parts stand one after another, each as long as its layout says, in the order in which memory has
// them: a span of a part is what load_packed() reads, a span of a whole expert is its slot.

#include "lib/snapshot/packed_source.h"

#include <cinttypes>

#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

// What the functions share: one packed tensor and what messages say of it.
class PackedView {
 public:
  PackedView(const TensorIndex &index, const std::string &name)
      : index_(index), name_(name), info_(*index.find(name)), layout_(*index.packed_layout(name)) {}

  const PackedLayout &layout() const { return layout_; }
  TensorSpan span() const { return {info_.file, info_.offset, info_.bytes}; }

  [[noreturn]] void fail(StatusCode code, const std::string &reason) const {
    throw_error(code, "tensor %s in %s %s", printable(name_).c_str(),
                printable(index_.file_of(info_), 60).c_str(), reason.c_str());
  }

  void require_form(PackedForm form) const {
    if (layout_.form == form) return;
    fail(StatusCode::kFormat, std::string("is packed in the form '") +
                                  packed_form_name(layout_.form) + "'; '" + packed_form_name(form) +
                                  "' is needed");
  }

  void require_shape(size_t part, uint64_t columns, uint64_t depth) const {
    const WeightLayout &found = layout_.parts[part];
    if (found.columns == columns && found.depth == depth) return;
    const uint64_t found_shape[] = {found.columns, found.depth};
    const uint64_t needed_shape[] = {columns, depth};
    fail(StatusCode::kFormat, "has as packed part " + std::to_string(part) + " a matrix of shape " +
                                  shape_text(found_shape) + "; the config implies " +
                                  shape_text(needed_shape));
  }

  // A tensor that has scales beside it as the container has them is two things at once.
  void require_no_scales() const {
    const char *suffix = find_scale_suffix(index_, name_);
    if (suffix == nullptr) return;
    fail(StatusCode::kFormat,
         std::string("is packed and has scales (") + suffix + ") all the same");
  }

  WeightSource part(size_t number, uint64_t rows, uint64_t columns) const {
    require_shape(number, rows, columns);
    WeightSource source;
    source.name = name_;
    source.format = StoredFormat::kPacked;
    source.rows = rows;
    source.columns = columns;
    source.packed = layout_.parts[number];
    source.values = {info_.file, info_.offset + layout_.part_offset(number),
                     source.packed.total_bytes()};
    return source;
  }

 private:
  const TensorIndex &index_;
  const std::string &name_;
  const TensorInfo &info_;
  const PackedLayout &layout_;
};

}  // namespace

WeightSource find_packed_matrix(const TensorIndex &index, const std::string &name, uint64_t rows,
                                uint64_t columns) {
  const PackedView tensor(index, name);
  tensor.require_form(PackedForm::kMatrix);
  tensor.require_no_scales();
  return tensor.part(0, rows, columns);
}

ExpertSource find_packed_expert(const TensorIndex &index, const std::string &name,
                                uint64_t expert_width, uint64_t width) {
  const PackedView tensor(index, name);
  tensor.require_form(PackedForm::kExpert);
  ExpertSource expert;
  expert.gate = tensor.part(0, expert_width, width);
  expert.up = tensor.part(1, expert_width, width);
  expert.down = tensor.part(2, width, expert_width);
  if (tensor.layout().parts.size() > 3) {
    expert.gate_bias = tensor.part(3, expert_width, 1);
    expert.up_bias = tensor.part(4, expert_width, 1);
    expert.down_bias = tensor.part(5, width, 1);
  }
  expert.slab = tensor.span();
  return expert;
}

KvHeadsSource find_packed_heads(const TensorIndex &index, const std::string &name,
                                const ModelConfig &config) {
  const PackedView tensor(index, name);
  if (tensor.layout().form == PackedForm::kMatrix) {
    tensor.fail(StatusCode::kUnsupported,
                "is packed as one matrix; packed by heads it is read (convert the model again)");
  }
  tensor.require_form(PackedForm::kHeads);
  if (tensor.layout().n_heads != config.n_heads) {
    tensor.fail(StatusCode::kFormat, "is packed for " + std::to_string(tensor.layout().n_heads) +
                                         " heads; the config implies " +
                                         std::to_string(config.n_heads));
  }
  tensor.require_no_scales();
  tensor.require_shape(0, config.kv_latent, config.nope_width);
  tensor.require_shape(1, config.value_width, config.kv_latent);
  KvHeadsSource heads;
  heads.name = name;
  heads.n_heads = config.n_heads;
  heads.key_up = tensor.layout().parts[0];
  heads.value_up = tensor.layout().parts[1];
  heads.values = tensor.span();
  // bounded: by the tensor's size, which the index has compared with the layout's
  heads.values.bytes = heads.n_heads * tensor.layout().head_bytes();
  return heads;
}

WeightSource head_part(const KvHeadsSource &heads, uint32_t head, size_t part) {
  const WeightLayout &layout = part == 0 ? heads.key_up : heads.value_up;
  const uint64_t key_bytes = heads.key_up.total_bytes();
  // bounded: inside the tensor
  uint64_t offset = heads.values.offset + head * (key_bytes + heads.value_up.total_bytes());
  if (part != 0) offset += key_bytes;
  WeightSource source;
  source.name = heads.name;
  source.format = StoredFormat::kPacked;
  source.rows = layout.columns;
  source.columns = layout.depth;
  source.packed = layout;
  source.values = {heads.values.file, offset, layout.total_bytes()};
  return source;
}

}  // namespace colibri
