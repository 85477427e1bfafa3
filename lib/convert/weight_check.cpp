// SPDX-License-Identifier: Apache-2.0
//
// In every float type NaN and infinity are the numbers that have all bits of a mask: the exponent,
// or in FP8 types without infinity all but the sign.

#include "lib/convert/weight_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/base/float_scan.h"

namespace colibri {
namespace {

Status refuse(const std::string &tensor, const ElementRange &range, uint64_t place,
              const char *what) noexcept {
  const uint64_t element = range.first + place;
  return make_status(StatusCode::kNonFinite,
                     "tensor %s is %s in row %llu, column %llu; such a model is not converted",
                     tensor.c_str(), what, static_cast<unsigned long long>(element / range.columns),
                     static_cast<unsigned long long>(element % range.columns));
}

// Index of the first element with all bits of `mask`, or the number of elements.
template <typename Bits>
size_t find_all_set(std::span<const uint8_t> bytes, Bits mask) noexcept {
  const size_t n = bytes.size() / sizeof(Bits);
  for (size_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    if ((bits & mask) == mask) return i;
  }
  return n;
}

size_t find_bad_element(TensorType type, std::span<const uint8_t> bytes) noexcept {
  switch (type) {
    case TensorType::kF32:
      return find_all_set<uint32_t>(bytes, 0x7F800000);
    case TensorType::kBF16:
      return find_all_set<uint16_t>(bytes, 0x7F80);
    case TensorType::kF16:
      return find_all_set<uint16_t>(bytes, 0x7C00);
    case TensorType::kF8E4M3:
      return find_all_set<uint8_t>(bytes, 0x7F);
    case TensorType::kF8E8M0:
      return find_all_set<uint8_t>(bytes, 0xFF);
    case TensorType::kF64:
      return find_all_set<uint64_t>(bytes, 0x7FF0000000000000);
    default:
      return bytes.size();
  }
}

}  // namespace

Status check_weights(const std::string &tensor, const ElementRange &range,
                     std::span<const float> weights) noexcept {
  const size_t place = find_non_finite(weights);
  if (place == weights.size()) return Status();
  return refuse(tensor, range, place, std::isnan(weights[place]) ? "NaN" : "infinite");
}

Status check_stored(const std::string &tensor, TensorType type, const ElementRange &range,
                    std::span<const uint8_t> bytes) noexcept {
  const size_t n_elements = bytes.size() / std::max<size_t>(1, tensor_type_bytes(type));
  const size_t place = find_bad_element(type, bytes);
  if (place >= n_elements) return Status();
  return refuse(tensor, range, place, "NaN or infinite");
}

}  // namespace colibri
