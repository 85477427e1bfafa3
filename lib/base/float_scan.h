// SPDX-License-Identifier: Apache-2.0
//
// Looks through rows of floats: logits of a hundred thousand tokens, weights by the billion.
// Written so that compilers make vectors of the loops on the baseline processor.

#pragma once

#include <cstddef>
#include <span>

namespace colibri {

// Index of the first value that is NaN or infinite, or values.size().
size_t find_non_finite(std::span<const float> values) noexcept;

// Index of the first value that is NaN or +infinity, or values.size().
size_t find_nan_or_infinity(std::span<const float> values) noexcept;

// Index of the first of the largest values; NaN is passed over. values.size() if none is above
// -infinity.
size_t find_largest(std::span<const float> values) noexcept;

}  // namespace colibri
