// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/topic_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "lib/base/number_formats.h"
#include "lib/base/status.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;

constexpr uint32_t kWidth = 192;

std::vector<float> embedding_of(const TopicVocabulary &vocabulary, uint32_t token) {
  std::vector<uint16_t> halves(kWidth);
  vocabulary.write_embedding(token, reinterpret_cast<uint8_t *>(halves.data()));
  std::vector<float> result(kWidth);
  std::transform(halves.begin(), halves.end(), result.begin(), bf16_to_float);
  return result;
}

double dot(const std::vector<float> &a, const std::vector<float> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum / static_cast<double>(a.size());
}

WeightLayout head_layout(const TopicVocabulary &vocabulary) {
  WeightLayout layout;
  layout.format = WeightFormat::kInt8;
  layout.columns = vocabulary.size();
  layout.depth = kWidth;
  layout.group = 64;
  layout.scale_type = ScaleType::kBF16;
  return layout;
}

// The head as floats: [V][D].
std::vector<std::vector<float>> read_head(const TopicVocabulary &vocabulary) {
  const WeightLayout layout = head_layout(vocabulary);
  std::vector<uint8_t> memory(layout.total_bytes() + 64, 0xEE);
  auto *values =
      reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  for (size_t panel = 0; panel < layout.n_panels(); ++panel) {
    vocabulary.write_head_panel(panel, values + panel * layout.panel_bytes());
  }
  const uint16_t one = float_to_bf16(1.0f);
  for (size_t at = layout.scale_offset(); at < layout.total_bytes(); at += sizeof one) {
    std::memcpy(values + at, &one, sizeof one);
  }
  const PackedMatrix matrix{layout, values};
  std::vector<std::vector<float>> rows(vocabulary.size(), std::vector<float>(kWidth));
  for (uint32_t token = 0; token < vocabulary.size(); ++token) {
    for (uint32_t d = 0; d < kWidth; ++d) rows[token][d] = unpack_weight(matrix, token, d);
  }
  return rows;
}

TEST_CASE("the tokens of each topic form one cycle, walked forwards and backwards") {
  for (const uint32_t size : {1u, 2u, 3u, 99u, 100u, 101u, 2048u}) {
    const TopicVocabulary vocabulary(size, kWidth, 0.5, 1);
    std::set<uint32_t> all;
    for (uint32_t topic = 0; topic < vocabulary.n_topics(); ++topic) {
      uint32_t token = topic;
      do {
        CHECK(token % vocabulary.n_topics() == topic);
        CHECK(all.insert(token).second);
        CHECK(vocabulary.previous(vocabulary.next(token)) == token);
        token = vocabulary.next(token);
      } while (token != topic);
    }
    INFO("size " << size);
    CHECK(all.size() == size);
  }
}

TEST_CASE("embeddings have length 1 per element, and are as alike as asked inside a topic") {
  for (const double correlation : {0.0, 0.5, 0.9, 1.0}) {
    const TopicVocabulary vocabulary(2048, kWidth, correlation, 3);
    double same = 0, other = 0;
    uint32_t token = 5;
    constexpr int kPairs = 40;
    for (int i = 0; i < kPairs; ++i, token = vocabulary.next(token)) {
      const std::vector<float> embedding = embedding_of(vocabulary, token);
      // exact: a token's own part is orthogonal to its topic's
      CHECK(dot(embedding, embedding) == Approx(1.0).margin(0.01));
      same += dot(embedding, embedding_of(vocabulary, vocabulary.next(token))) / kPairs;
      other += dot(embedding, embedding_of(vocabulary, token + 1)) / kPairs;
    }
    INFO("correlation " << correlation);
    CHECK(same == Approx(correlation).margin(0.03));
    CHECK(other == Approx(0.0).margin(0.1));
  }
}

TEST_CASE("the head prefers the next token of the topic, then the rest of the topic") {
  // 101 tokens: the last panel of the head is not full.
  for (const double correlation : {0.0, 0.6, 0.99}) {
    const TopicVocabulary vocabulary(101, kWidth, correlation, 7);
    const std::vector<std::vector<float>> head = read_head(vocabulary);
    for (uint32_t token = 0; token < vocabulary.size(); ++token) {
      const std::vector<float> embedding = embedding_of(vocabulary, token);
      const auto logit = [&](uint32_t of) { return dot(embedding, head[of]); };
      const uint32_t next = vocabulary.next(token);
      for (uint32_t i = 0; i < vocabulary.size(); ++i) {
        const bool is_same_topic = i % vocabulary.n_topics() == token % vocabulary.n_topics();
        INFO("after " << token << ": " << next << " or " << i << ", correlation " << correlation);
        if (i != next) CHECK(logit(next) > logit(i));
        if (correlation > 0.9 && !is_same_topic) {
          CHECK(logit(i) < logit(vocabulary.next(next)));
        }
      }
    }
  }
}

TEST_CASE("columns behind the last token are zero weights") {
  const TopicVocabulary vocabulary(17, kWidth, 0.5, 1);
  std::vector<uint8_t> panel(head_layout(vocabulary).panel_bytes(), 0xEE);
  vocabulary.write_head_panel(1, panel.data());
  for (size_t i = 0; i < panel.size(); ++i) {
    if (i % 64 < 4) {
      CHECK((panel[i] == 2 || panel[i] == 128 || panel[i] == 254));
    } else {
      CHECK(panel[i] == 128);
    }
  }
}

TEST_CASE("another seed gives another vocabulary, the same seed the same") {
  const TopicVocabulary one(512, kWidth, 0.5, 1);
  const TopicVocabulary again(512, kWidth, 0.5, 1);
  const TopicVocabulary other(512, kWidth, 0.5, 2);
  CHECK(embedding_of(one, 77) == embedding_of(again, 77));
  CHECK(std::fabs(dot(embedding_of(one, 77), embedding_of(other, 77))) < 0.3);
}

TEST_CASE("a width that is no multiple of 64 is refused") {
  expect_failure(StatusCode::kInternal, {"96"}, [] { TopicVocabulary(100, 96, 0.5, 1); });
}

}  // namespace
