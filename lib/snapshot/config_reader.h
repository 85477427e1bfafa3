// SPDX-License-Identifier: Apache-2.0
//
// ConfigReader: typed, range-checked access to the keys of config.json. A key that is null counts
// as absent. Every refusal names the file, the key, the value and the rule.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/snapshot/json.h"

namespace colibri {

struct CountRange {
  uint32_t least;
  uint32_t most;
};

class ConfigReader {
 public:
  ConfigReader(JsonValue object, std::string file) noexcept
      : object_(object), file_(std::move(file)) {}

  bool has(const char *key) const noexcept { return !object_.get(key).is_null(); }
  JsonValue get(const char *key) const noexcept { return object_.get(key); }

  // A whole number in `range`; integers written as floats are accepted. Throws Error(kFormat).
  uint32_t require_count(const char *key, CountRange range) const;
  uint32_t read_count(const char *key, CountRange range, uint32_t if_absent) const;
  // The first of several names of one number; present names must agree.
  uint32_t require_count_alias(std::initializer_list<const char *> keys, CountRange range) const;
  // A finite float above 0. Throws Error(kFormat).
  float require_positive(const char *key) const;
  float read_positive(const char *key, float if_absent) const;
  bool read_flag(const char *key, bool if_absent) const;
  std::optional<std::string_view> read_text(const char *key) const;
  // Any finite number, or nothing if the key is absent. Throws Error(kFormat).
  std::optional<float> read_number(const char *key) const;
  // A reader of the object under `key`, which is there; messages name both. Throws Error(kFormat).
  ConfigReader nested(const char *key) const;

  // Throws Error(kUnsupported) unless the key is absent or has this value.
  void require_text_value(const char *key, std::string_view only) const;
  void require_flag_value(const char *key, bool only) const;
  // Throws Error(kUnsupported) if the key is there and not null.
  void require_absent(const char *key) const;

  // Throws Error(kFormat): "config.json: <key> is <value>; <rule>".
  [[noreturn]] void fail(const char *key, const std::string &rule) const;
  // Throws Error(kFormat) with a free text after the file's name.
  [[noreturn]] void fail_relation(const std::string &text) const;
  [[noreturn]] void fail_unsupported(const char *key, const std::string &rule) const;

 private:
  std::string show(const char *key) const;
  float to_positive(const char *key, std::optional<double> number) const;

  JsonValue object_;
  std::string file_;
};

// eos_token_id of a config or generation config: a number or a list of numbers, each a valid id;
// null and absence give nothing. Throws Error(kFormat).
std::vector<int64_t> read_stop_ids(JsonValue root, const std::string &file);

}  // namespace colibri
