// SPDX-License-Identifier: Apache-2.0
//
// NFC works on segments: from a settled character that unsettled ones follow up to the next settled
// one. In ordinary text nearly all is settled and is copied. Within a segment utf8proc gives the
// decomposition and the composition; the order of marks is sorted here, because a long run of marks
// from a hostile text would take utf8proc quadratic time.

#include "lib/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/utf8.h"

namespace colibri {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Ascending. Checked against utf8proc for every code point by unicode_test.cpp.
constexpr std::array<Range, 17> kSettled = {{
    {0x0000, 0x02FF},  // Latin
    {0x0388, 0x0482},  // Greek and Cyrillic
    {0x048A, 0x052F},  // Cyrillic
    {0x05D0, 0x05EA},  // Hebrew letters
    {0x0621, 0x064A},  // Arabic letters
    {0x0E01, 0x0E37},  // Thai
    {0x2010, 0x2027},  // punctuation
    {0x2030, 0x205E},  // punctuation
    {0x20A0, 0x20C0},  // currency
    {0x2190, 0x2328},  // arrows and operators
    {0x2500, 0x2ADB},  // box drawing to operators
    {0x3000, 0x3029},  // CJK punctuation
    {0x3041, 0x3098},  // Hiragana
    {0x309B, 0x30FF},  // Katakana
    {0x3400, 0x9FFF},  // CJK ideographs
    {0xAC00, 0xD7A3},  // Hangul syllables
    {0xFF01, 0xFFEE},  // full width forms
}};

uint32_t combining_class(utf8proc_int32_t code_point) noexcept {
  return utf8proc_get_property(code_point)->combining_class;
}

void decompose(std::string_view segment, std::vector<utf8proc_int32_t> *points) {
  for (size_t i = 0; i < segment.size(); i += utf8_length(segment[i])) {
    std::array<utf8proc_int32_t, 32> parts;  // canonical decompositions have at most 4
    int boundary_class = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(decode_utf8(segment.substr(i))), parts.data(),
        static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_DECOMPOSE, &boundary_class);
    if (n < 0 || static_cast<size_t>(n) > parts.size()) {
      throw_error(StatusCode::kInternal, "utf8proc: %s", utf8proc_errmsg(n));
    }
    points->insert(points->end(), parts.begin(), parts.begin() + n);
  }
}

// Canonical order: each run of marks sorted by class, equal classes kept in order.
void sort_marks(std::vector<utf8proc_int32_t> *points) {
  auto begin = points->begin();
  const auto is_starter = [](utf8proc_int32_t c) { return combining_class(c) == 0; };
  while (begin != points->end()) {
    begin = std::find_if_not(begin, points->end(), is_starter);
    const auto end = std::find_if(begin, points->end(), is_starter);
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    begin = end;
  }
}

void append_composed(std::string_view segment, std::vector<utf8proc_int32_t> *points,
                     std::string *normalized) {
  points->clear();
  decompose(segment, points);
  sort_marks(points);
  const utf8proc_ssize_t n =
      utf8proc_normalize_utf32(points->data(), static_cast<utf8proc_ssize_t>(points->size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (n < 0) throw_error(StatusCode::kInternal, "utf8proc: %s", utf8proc_errmsg(n));
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    append_utf8(static_cast<char32_t>((*points)[static_cast<size_t>(i)]), normalized);
  }
}

}  // namespace

bool is_settled_in_nfc(char32_t code_point) noexcept {
  const auto range =
      std::find_if(kSettled.begin(), kSettled.end(),
                   [code_point](const Range &candidate) { return code_point <= candidate.last; });
  return range != kSettled.end() && code_point >= range->first;
}

void append_nfc(std::string_view text, std::string *normalized) {
  std::vector<utf8proc_int32_t> points;
  size_t copied = 0;        // everything before is appended
  size_t last_settled = 0;  // where the last settled character begins
  size_t i = 0;
  while (i < text.size()) {
    if (static_cast<uint8_t>(text[i]) < 0x80 || is_settled_in_nfc(decode_utf8(text.substr(i)))) {
      last_settled = i;
      i += utf8_length(text[i]);
      continue;
    }
    normalized->append(text.substr(copied, last_settled - copied));
    while (i < text.size() && !is_settled_in_nfc(decode_utf8(text.substr(i)))) {
      i += utf8_length(text[i]);
    }
    append_composed(text.substr(last_settled, i - last_settled), &points, normalized);
    copied = i;
    last_settled = i;
  }
  normalized->append(text.substr(copied));
}

bool is_word_character(char32_t c) noexcept {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      break;
  }
  const bool is_circled_letter = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                                 (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  return is_circled_letter || c == 0x200C || c == 0x200D;
}

bool is_white_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace colibri
