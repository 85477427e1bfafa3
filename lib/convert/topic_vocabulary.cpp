// SPDX-License-Identifier: Apache-2.0
//
// Four elements are looked up at once: embedding and head have a gigabyte each in large shapes.

#include "lib/convert/topic_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/base/number_formats.h"
#include "lib/base/random_stream.h"
#include "lib/base/status.h"
#include "lib/base/weight_layout.h"

namespace colibri {
namespace {

constexpr uint64_t kTopicKind = 1;
constexpr uint64_t kOwnKind = 2;
constexpr uint32_t kWordBits = 64;
constexpr uint32_t kFour = 4;  // elements of a lookup; depths of an INT8 line
constexpr int kHeadCode = 63;  // of one of the two vectors of a head row
constexpr int kInt8Zero = 128;
// By so many nats the next token would lead if its embedding were all its own.
constexpr float kLead = 16.0f;

int sign_of(uint32_t bits, uint32_t element) noexcept {
  return (bits >> element & 1u) != 0 ? 1 : -1;
}

using FourCodes = std::array<uint8_t, kFour>;

// Of a head row, by 16 * topic's signs + own signs.
std::array<FourCodes, 256> make_head_codes() noexcept {
  std::array<FourCodes, 256> codes{};
  for (uint32_t i = 0; i < codes.size(); ++i) {
    for (uint32_t j = 0; j < kFour; ++j) {
      const int sum = sign_of(i >> 4, j) + sign_of(i, j);
      codes[i][j] = static_cast<uint8_t>(kInt8Zero + kHeadCode * sum);
    }
  }
  return codes;
}

// Index into a table of four elements: element e of both words lowest.
uint32_t four_signs(uint64_t topic, uint64_t own, uint32_t e) noexcept {
  return (static_cast<uint32_t>(topic >> e) & 15u) << 4 | (static_cast<uint32_t>(own >> e) & 15u);
}

// Signs of an own vector, word after word: the topic's, half of which are turned. What is turned in
// the lower half of a word stays in the upper one, so that the product of the two vectors is 0.
class OwnSigns {
 public:
  OwnSigns(uint64_t seed, uint32_t token) noexcept : random_{seed, kOwnKind, token} {}

  uint64_t next(uint64_t topic) noexcept {
    const uint64_t turned = random_.next() >> 32;
    return topic ^ (turned | ~turned << 32);
  }

 private:
  RandomStream random_;
};

}  // namespace

TopicVocabulary::TopicVocabulary(uint32_t size, uint32_t width, double correlation, uint64_t seed)
    : size_(size),
      width_(width),
      n_topics_(std::max(1u, static_cast<uint32_t>(std::sqrt(static_cast<double>(size))))),
      seed_(seed) {
  if (width % kWordBits != 0) {
    throw_error(StatusCode::kInternal, "a model width of %u is no multiple of 64", width);
  }
  topics_.resize(size_t{n_topics_} * (width / kWordBits));
  uint64_t *words = topics_.data();
  for (uint32_t topic = 0; topic < n_topics_; ++topic) {
    RandomStream random{seed, kTopicKind, topic};
    for (uint32_t w = 0; w < width / kWordBits; ++w) *words++ = random.next();
  }
  const double shared = std::sqrt(correlation);
  const double own = std::sqrt(1.0 - correlation);
  for (uint32_t i = 0; i < 256; ++i) {
    for (uint32_t j = 0; j < kFour; ++j) {
      const double element = shared * sign_of(i >> 4, j) + own * sign_of(i, j);
      four_elements_[i][j] = float_to_bf16(static_cast<float>(element));
    }
  }
}

uint32_t TopicVocabulary::next(uint32_t token) const noexcept {
  return size_ - token > n_topics_ ? token + n_topics_ : token % n_topics_;
}

uint32_t TopicVocabulary::previous(uint32_t token) const noexcept {
  if (token >= n_topics_) return token - n_topics_;
  return token + (size_ - 1 - token) / n_topics_ * n_topics_;
}

const uint64_t *TopicVocabulary::topic_signs(uint32_t token) const noexcept {
  return &topics_[size_t{token % n_topics_} * (width_ / kWordBits)];
}

void TopicVocabulary::write_embedding(uint32_t token, uint8_t *row) const noexcept {
  OwnSigns own(seed_, token);
  const uint64_t *topic = topic_signs(token);
  for (uint32_t w = 0; w < width_ / kWordBits; ++w) {
    const uint64_t own_word = own.next(topic[w]);
    for (uint32_t e = 0; e < kWordBits; e += kFour) {
      const FourElements &four = four_elements_[four_signs(topic[w], own_word, e)];
      std::memcpy(row, four.data(), sizeof four);
      row += sizeof four;
    }
  }
}

float TopicVocabulary::head_scale() const noexcept {
  return kLead / (static_cast<float>(kHeadCode) * static_cast<float>(width_));
}

void TopicVocabulary::write_head_panel(size_t panel, uint8_t *place) const noexcept {
  static const std::array<FourCodes, 256> codes = make_head_codes();
  const auto first = static_cast<uint32_t>(panel * kPanelColumns);
  const uint32_t n = std::min<uint32_t>(kPanelColumns, size_ - first);
  if (n < kPanelColumns) std::memset(place, kInt8Zero, size_t{width_} * kPanelColumns);
  for (uint32_t c = 0; c < n; ++c) {
    OwnSigns own(seed_, previous(first + c));
    const uint64_t *topic = topic_signs(first + c);
    uint8_t *line = place + c * kFour;
    for (uint32_t w = 0; w < width_ / kWordBits; ++w) {
      const uint64_t own_word = own.next(topic[w]);
      for (uint32_t e = 0; e < kWordBits; e += kFour) {
        std::memcpy(line, codes[four_signs(topic[w], own_word, e)].data(), kFour);
        line += kPanelColumns * kFour;
      }
    }
  }
}

}  // namespace colibri
