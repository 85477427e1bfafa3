// SPDX-License-Identifier: Apache-2.0
//
// Names of the choices, as describe and messages have them.

#include "lib/base/layer_math.h"

namespace colibri {

const char *router_kind_name(RouterKind kind) noexcept {
  switch (kind) {
    case RouterKind::kSigmoid:
      return "sigmoid";
    case RouterKind::kSoftmax:
      return "softmax";
    case RouterKind::kSoftmaxOfChosen:
      return "chosen-softmax";
  }
  return "unknown";
}

const char *kv_type_name(KvType type) noexcept {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kBF16:
      return "bf16";
    case KvType::kF16:
      return "f16";
  }
  return "unknown";
}

}  // namespace colibri
