// SPDX-License-Identifier: Apache-2.0
//
// Every option takes its text from CLI11 as it stands. Lists are parsed here too, because those of
// CLI11 would also take the arguments behind them.

#include "examples/colibri/number_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace colibri::command {
namespace {

constexpr uint64_t kMaxId = std::numeric_limits<int32_t>::max();

constexpr const char *kSizeForm =
    "a size from 1 to 2^64-1 bytes, such as 1000000, 512M or 1.5G (K, M, G, T are powers of 1024)";

// Adds an option whose text is turned into its value by `parse`. Given several times, it is refused:
// that one of two values would silently win is not what was asked.
template <class Value, class Parse>
CLI::Option *add_parsed(CLI::App &app, const std::string &option, Value *target, Parse parse,
                        const std::string &description) {
  const auto take = [option, target, parse](const CLI::results_t &texts) {
    for (const std::string &text : texts) *target = parse(option, text);
    if (texts.size() > 1) {
      throw CLI::ValidationError(
          option, "is given " + std::to_string(texts.size()) + " times; give it once");
    }
    return true;
  };
  return app.add_option(option, CLI::callback_t(take), description)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

[[noreturn]] void refuse(const std::string &option, std::string_view text,
                         const std::string &wanted) {
  throw CLI::ValidationError(option, "'" + std::string(text) + "' is not " + wanted);
}

// All of `text` as digits. Nothing if it has anything else or is too large.
std::optional<uint64_t> parse_digits(std::string_view text) {
  uint64_t number = 0;
  const char *const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

std::string describe(WholeRange range) {
  return "a whole number from " + std::to_string(range.least) + " to " + std::to_string(range.most);
}

std::string format_real(float number) {
  char digits[40];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

std::string describe(RealRange range) {
  const bool has_end = range.most < std::numeric_limits<float>::max();
  if (!range.includes_least) return "a number > " + format_real(range.least);
  return "a number from " + format_real(range.least) +
         (has_end ? " to " + format_real(range.most) : " on");
}

template <class Number>
CLI::Option *add_whole(CLI::App &app, const std::string &option, WholeRange range, Number *number,
                       const std::string &description) {
  const auto parse = [range](const std::string &name, std::string_view text) {
    const std::optional<uint64_t> parsed = parse_digits(text);
    if (!parsed || *parsed < range.least || *parsed > range.most) {
      refuse(name, text, describe(range));
    }
    return static_cast<Number>(*parsed);
  };
  return add_parsed(app, option, number, parse, description)->type_name("N");
}

// Parses "digits[.digits]" and multiplies; nothing if that is malformed or does not fit.
std::optional<uint64_t> parse_scaled(std::string_view text, uint64_t scale) {
  const size_t point = text.find('.');
  const std::optional<uint64_t> whole = parse_digits(text.substr(0, point));
  if (!whole || *whole > std::numeric_limits<uint64_t>::max() / scale) return std::nullopt;
  if (point == std::string_view::npos) return *whole * scale;
  const std::string_view digits = text.substr(point + 1);
  const bool is_fraction =
      !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (!is_fraction || scale == 1) return std::nullopt;
  double fraction = 0;
  std::from_chars(text.data() + point, text.data() + text.size(), fraction);
  // Below one unit, as a double may round up to 1.
  const auto part =
      std::min(static_cast<uint64_t>(fraction * static_cast<double>(scale)), scale - 1);
  const uint64_t bytes = *whole * scale;
  if (part > std::numeric_limits<uint64_t>::max() - bytes) return std::nullopt;
  return bytes + part;
}

std::optional<uint64_t> parse_size(std::string_view text) {
  std::string unit(text.substr(std::min(text.size(), text.find_first_not_of("0123456789."))));
  const std::string_view number = text.substr(0, text.size() - unit.size());
  for (char &c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.empty()) return parse_scaled(number, 1);
  constexpr std::string_view kPrefixes = "kmgt";
  const size_t prefix = kPrefixes.find(unit[0]);
  const bool is_unit =
      prefix != std::string_view::npos && (unit.size() == 1 || unit.substr(1) == "ib");
  if (!is_unit) return std::nullopt;
  return parse_scaled(number, uint64_t{1} << (10 * (prefix + 1)));
}

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::vector<int32_t> parse_list(const std::string &option, WholeRange range,
                                std::string_view list) {
  std::vector<int32_t> numbers;
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view item = trim(list.substr(0, comma));
    const std::optional<uint64_t> number = parse_digits(item);
    if (!number || *number < range.least || *number > range.most) {
      refuse(option + " item " + std::to_string(numbers.size() + 1), item,
             describe(range) + "; write a list such as 1,2,3");
    }
    numbers.push_back(static_cast<int32_t>(*number));
    if (comma == std::string_view::npos) return numbers;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

CLI::Option *add_whole_number(CLI::App &app, const std::string &option, WholeRange range,
                              uint32_t *number, const std::string &description) {
  return add_whole(app, option, range, number, description);
}

CLI::Option *add_whole_number(CLI::App &app, const std::string &option, WholeRange range,
                              uint64_t *number, const std::string &description) {
  return add_whole(app, option, range, number, description);
}

CLI::Option *add_real_number(CLI::App &app, const std::string &option, RealRange range,
                             float *number, const std::string &description) {
  const auto parse = [range](const std::string &name, std::string_view text) {
    float parsed = 0;
    const char *const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, parsed);
    const bool is_number = error == std::errc() && rest == end && std::isfinite(parsed);
    const bool is_in_range = parsed <= range.most &&
                             (range.includes_least ? parsed >= range.least : parsed > range.least);
    if (!is_number || !is_in_range) refuse(name, text, describe(range));
    return parsed;
  };
  return add_parsed(app, option, number, parse, description)->type_name("F");
}

CLI::Option *add_size(CLI::App &app, const std::string &option, uint64_t *bytes,
                      const std::string &description) {
  const auto parse = [](const std::string &name, std::string_view text) {
    const uint64_t size = parse_size(text).value_or(0);
    if (size == 0) refuse(name, text, kSizeForm);
    return size;
  };
  return add_parsed(app, option, bytes, parse, description)->type_name("BYTES");
}

CLI::Option *add_number_list(CLI::App &app, const std::string &option, WholeRange range,
                             std::vector<int32_t> *numbers, const std::string &description) {
  const auto parse = [range](const std::string &name, std::string_view list) {
    return parse_list(name, range, list);
  };
  return add_parsed(app, option, numbers, parse, description)->type_name("N,N,..");
}

CLI::Option *add_ids_option(CLI::App &app, std::vector<int32_t> *ids,
                            const std::string &description) {
  return add_number_list(app, "--ids", {0, kMaxId}, ids, description);
}

std::string join_numbers(std::span<const int32_t> numbers) {
  std::string text;
  for (const int32_t number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

}  // namespace colibri::command
