// SPDX-License-Identifier: Apache-2.0
//
// The filters are cuts of one ranked list, and the ranked list is made lazily with a heap: usually
// a few dozen of a hundred thousand candidates are ever put in order. Every sum has a fixed order
// (rank, or id where nothing is ranked), so that the standard library's choice of algorithm cannot
// show.

#include "lib/runtime/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <new>

#include "lib/base/float_scan.h"
#include "lib/base/portable_math.h"

namespace colibri {
namespace {

constexpr uint32_t kDefaultWindow = 64;

// Finaliser of the splitmix64 generator: a bijection that spreads every bit.
uint64_t mix_bits(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// NaN lies in no range.
bool is_between(float value, float low, float high) noexcept {
  return value >= low && value <= high;
}

Status check_field(const char *name, float value, float low, float high) noexcept {
  if (value == 0.0f || is_between(value, low, high)) return Status();
  return make_status(StatusCode::kArgument, "sampler: %s is %g; must be 0 (off) or %g..%g", name,
                     static_cast<double>(value), static_cast<double>(low),
                     static_cast<double>(high));
}

// The id of the largest score, ties to the lower id; -1 if none is above -infinity.
int32_t best_token(std::span<const float> scores) noexcept {
  const size_t id = find_largest(scores);
  return id < scores.size() ? static_cast<int32_t>(id) : -1;
}

Status check_finite(std::span<const float> logits) noexcept {
  const size_t id = find_nan_or_infinity(logits);
  if (id == logits.size()) return Status();
  return make_status(StatusCode::kNonFinite, "the logit of token %zu is %g", id,
                     static_cast<double>(logits[id]));
}

float compute_logprob(std::span<const float> logits, int32_t token, int32_t largest) noexcept {
  const double top = logits[static_cast<size_t>(largest)];
  double sum = 0.0;
  for (const float logit : logits) {
    if (std::isfinite(logit)) sum += portable_exp(static_cast<double>(logit) - top);
  }
  return static_cast<float>(logits[static_cast<size_t>(token)] - top - portable_log(sum));
}

}  // namespace

Status check_sampler(const SamplerParameters &parameters) noexcept {
  Status status = check_field("temperature", parameters.temperature, 1e-3f, 100.0f);
  if (status.is_ok()) status = check_field("top_p", parameters.top_p, 0.0f, 1.0f);
  if (status.is_ok()) status = check_field("min_p", parameters.min_p, 0.0f, 1.0f);
  if (status.is_ok()) {
    status = check_field("repetition_penalty", parameters.repetition_penalty, 0.01f, 100.0f);
  }
  return status;
}

double draw_uniform(uint64_t seed, uint64_t position) noexcept {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  const uint64_t key = mix_bits(seed + kStep);
  const uint64_t hash = mix_bits(mix_bits(key ^ (position + kStep)) + key);
  return static_cast<double>(hash >> 11) * 0x1p-53;
}

Sampler::Sampler(uint32_t n_logits, uint32_t n_token_ids)
    : n_token_ids_(std::min(n_logits, n_token_ids)) {
  try {
    scores_.resize(n_token_ids_);
    order_.resize(n_token_ids_);
  } catch (const std::bad_alloc &) {
    throw_error(StatusCode::kMemory, "sampler: no memory for %u candidates", n_token_ids_);
  }
}

Status Sampler::choose(std::span<const float> logits, const SamplerParameters &parameters,
                       std::span<const int32_t> recent, uint64_t position, bool wants_logprob,
                       Choice *choice) noexcept {
  assert(logits.size() >= n_token_ids_);
  const std::span<const float> valid = logits.first(n_token_ids_);
  const Status status = check_finite(valid);
  if (!status.is_ok()) return status;
  const int32_t largest = best_token(valid);
  if (largest < 0) {
    return make_status(StatusCode::kNonFinite, "all %u logits are -inf: no token can be chosen",
                       n_token_ids_);
  }
  const bool is_penalised =
      parameters.repetition_penalty != 0.0f && parameters.repetition_penalty != 1.0f;
  if (parameters.temperature == 0.0f && !is_penalised) {
    choice->token = largest;
  } else {
    std::copy(valid.begin(), valid.end(), scores_.begin());
    if (is_penalised) penalise(valid, parameters, recent);
    const int32_t best = best_token(scores_);
    const Weigher weigh{scores_.data(), scores_[static_cast<size_t>(best)], parameters.temperature};
    choice->token = parameters.temperature == 0.0f ? best : draw(parameters, weigh, position);
  }
  choice->logprob = wants_logprob ? compute_logprob(valid, choice->token, largest) : 0.0f;
  return Status();
}

// Computes from the raw logit, so a token that stands in the window twice is penalised once.
void Sampler::penalise(std::span<const float> logits, const SamplerParameters &parameters,
                       std::span<const int32_t> recent) noexcept {
  const size_t wanted =
      parameters.repetition_window == 0 ? kDefaultWindow : parameters.repetition_window;
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const int32_t token : recent.last(std::min(wanted, recent.size()))) {
    if (token < 0 || static_cast<uint32_t>(token) >= n_token_ids_) continue;
    const float logit = logits[static_cast<size_t>(token)];
    if (!std::isfinite(logit)) continue;
    const float penalty = parameters.repetition_penalty;
    const float score = logit > 0.0f ? logit / penalty : logit * penalty;
    scores_[static_cast<size_t>(token)] = std::clamp(score, -kLargest, kLargest);
  }
}

double Sampler::Weigher::operator()(int32_t id) const noexcept {
  return portable_exp((scores[static_cast<size_t>(id)] - top) / temperature);
}

int32_t Sampler::at_rank(size_t rank) noexcept {
  // A total order: the sequence of pops does not depend on how the heap is kept.
  const auto is_worse = [this](int32_t a, int32_t b) {
    const float score_a = scores_[static_cast<size_t>(a)];
    const float score_b = scores_[static_cast<size_t>(b)];
    return score_a != score_b ? score_a < score_b : a > b;
  };
  for (; n_ranked_ <= rank; ++n_ranked_) {
    const auto end = order_.begin() + static_cast<ptrdiff_t>(n_candidates_ - n_ranked_);
    if (n_ranked_ == 0) std::make_heap(order_.begin(), end, is_worse);
    std::pop_heap(order_.begin(), end, is_worse);
  }
  return order_[n_candidates_ - 1 - rank];
}

// Lists the candidates in ascending id. Without top_k and top_p nothing needs a rank, and min_p is
// applied here.
void Sampler::collect(const SamplerParameters &parameters, const Weigher &weigh) noexcept {
  const bool has_rank_filter = parameters.top_k != 0 || parameters.top_p != 0.0f;
  n_candidates_ = 0;
  n_ranked_ = 0;
  total_ = 0.0;
  for (int32_t id = 0; static_cast<uint32_t>(id) < n_token_ids_; ++id) {
    if (scores_[static_cast<size_t>(id)] == -std::numeric_limits<float>::infinity()) continue;
    if (parameters.top_k == 0) {
      const double weight = weigh(id);
      if (!has_rank_filter && weight < parameters.min_p) continue;
      total_ += weight;
    }
    order_[n_candidates_++] = id;
  }
  n_kept_ = n_candidates_;
}

void Sampler::cut(const SamplerParameters &parameters, const Weigher &weigh) noexcept {
  const auto sum_kept = [&] {
    total_ = 0.0;
    for (size_t rank = 0; rank < n_kept_; ++rank) total_ += weigh(at_rank(rank));
  };
  if (parameters.top_k != 0) {
    n_kept_ = std::min<size_t>(parameters.top_k, n_kept_);
    sum_kept();
  }
  if (parameters.top_p != 0.0f) {
    const double wanted = static_cast<double>(parameters.top_p) * total_;
    double reached = 0.0;
    size_t rank = 0;
    while (rank < n_kept_ && reached < wanted) reached += weigh(at_rank(rank++));
    n_kept_ = rank;
  }
  while (n_kept_ > 1 && weigh(at_rank(n_kept_ - 1)) < parameters.min_p) --n_kept_;
  sum_kept();
}

int32_t Sampler::draw(const SamplerParameters &parameters, const Weigher &weigh,
                      uint64_t position) noexcept {
  collect(parameters, weigh);
  if (parameters.top_k != 0 || parameters.top_p != 0.0f) cut(parameters, weigh);
  const double target = draw_uniform(parameters.seed, position) * total_;
  double passed = 0.0;
  int32_t token = at_rank(0);
  // If rounding leaves the target just above the sum in rank order, the last one that has weight is
  // meant.
  for (size_t rank = 0; rank < n_kept_ && passed <= target; ++rank) {
    const double weight = weigh(at_rank(rank));
    if (weight == 0.0) break;
    token = at_rank(rank);
    passed += weight;
  }
  return token;
}

}  // namespace colibri
