// SPDX-License-Identifier: Apache-2.0
//
// Embedding and head of a synthesised snapshot. Token t belongs to topic t % n_topics. All vectors
// have elements of magnitude 1, with random signs:
//
//   embedding(t) = sqrt(c) * topic(t) + sqrt(1 - c) * own(t)    c: the correlation inside a topic
//   head row(t)  = topic(t) + own(previous(t))
//
// where own(t) is orthogonal to topic(t). Tokens of a topic form a cycle. As long as the hidden
// state is the embedding with little added, the most likely token after t is next(t): a greedy
// sequence goes round its topic. Only if c is so near to 1 that rounding makes the tokens of a
// topic alike, it may stay at one of them.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace colibri {

class TopicVocabulary {
  using FourElements = std::array<uint16_t, 4>;

 public:
  // `width` is a multiple of 64, correlation 0..1.
  TopicVocabulary(uint32_t size, uint32_t width, double correlation, uint64_t seed);

  uint32_t size() const noexcept { return size_; }
  // About as many as each has tokens.
  uint32_t n_topics() const noexcept { return n_topics_; }
  uint32_t next(uint32_t token) const noexcept;
  uint32_t previous(uint32_t token) const noexcept;

  // [width] BF16 elements.
  void write_embedding(uint32_t token, uint8_t *row) const noexcept;

  float head_scale() const noexcept;  // of all groups of the head
  // The values of one panel of the head, an INT8 matrix [width] to [size]. Columns behind the last
  // token are 0.
  void write_head_panel(size_t panel, uint8_t *place) const noexcept;

 private:
  const uint64_t *topic_signs(uint32_t token) const noexcept;

  uint32_t size_, width_, n_topics_;
  uint64_t seed_;
  // Signs of the topics, one bit per element: [n_topics][width / 64].
  std::vector<uint64_t> topics_;
  FourElements four_elements_[256];  // of an embedding, by 16 * topic's signs + own signs
};

}  // namespace colibri
