// SPDX-License-Identifier: Apache-2.0
//
// Choices of a layer's mathematics that a configuration names and a device computes: plain data
// below both, so that neither has to know the other.

#pragma once

#include <cstddef>
#include <cstdint>

namespace colibri {

// What a router makes of its logits l[E], and what the top_k are chosen by.
enum class RouterKind : uint8_t {
  // s = sigmoid(l). Chosen by s + selection bias, which never enters a weight; weight s[e].
  kSigmoid,
  // p = softmax(l) over all experts. Chosen by p; weight p[e].
  kSoftmax,
  // Chosen by l; weights are the softmax over the chosen logits alone.
  kSoftmaxOfChosen,
};
const char *router_kind_name(RouterKind kind) noexcept;  // "sigmoid", "softmax", "chosen-softmax"

// What joins the gate and up products of a routed expert.
enum class ActivationKind : uint8_t {
  kSilu,         // silu(g) * u
  kClampedSwish  // g' = min(g, limit), u' = clamp(u, -limit, limit): g' * sigmoid(alpha g') * (u'+1)
};
struct Activation {
  ActivationKind kind = ActivationKind::kSilu;
  float limit = 0;  // kClampedSwish only, above 0
  float alpha = 0;  // kClampedSwish only, above 0

  bool operator==(const Activation &) const = default;
};

// Number format of keys and values in a slot. Attention computes in float32 whatever it is; keys
// and values are rounded once, to nearest even, when they are stored.
enum class KvType : uint8_t { kF32, kBF16, kF16 };
const char *kv_type_name(KvType type) noexcept;  // "f32", "bf16", "f16"
constexpr size_t kv_type_bytes(KvType type) noexcept {
  return type == KvType::kF32 ? 4 : 2;
}

}  // namespace colibri
