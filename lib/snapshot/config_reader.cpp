// SPDX-License-Identifier: Apache-2.0
//
// One place for the wording of refusals, so that all keys are refused in the same manner.

#include "lib/snapshot/config_reader.h"

#include <cmath>

#include "lib/base/status.h"
#include "lib/snapshot/printable.h"

namespace colibri {

std::string ConfigReader::show(const char *key) const {
  const JsonValue value = object_.get(key);
  if (value.is_null()) return std::string(key) + " is absent";
  JsonWriter writer;
  if (value.size() <= 16) writer.value(value);
  const std::string text = value.size() <= 16 ? printable(writer.text(), 60) : "a long list";
  return std::string(key) + " is " + text;
}

void ConfigReader::fail(const char *key, const std::string &rule) const {
  throw_error(StatusCode::kFormat, "%s: %s; %s", file_.c_str(), show(key).c_str(), rule.c_str());
}

void ConfigReader::fail_relation(const std::string &text) const {
  throw_error(StatusCode::kFormat, "%s: %s", file_.c_str(), text.c_str());
}

void ConfigReader::fail_unsupported(const char *key, const std::string &rule) const {
  throw_error(StatusCode::kUnsupported, "%s: %s; %s", file_.c_str(), show(key).c_str(),
              rule.c_str());
}

uint32_t ConfigReader::require_count(const char *key, CountRange range) const {
  const std::string rule = "a whole number in " + std::to_string(range.least) + ".." +
                           std::to_string(range.most) + " is needed";
  const std::optional<int64_t> number = object_.get(key).as_integer();
  if (!number || *number < range.least || *number > range.most) fail(key, rule);
  return static_cast<uint32_t>(*number);
}

uint32_t ConfigReader::read_count(const char *key, CountRange range, uint32_t if_absent) const {
  return has(key) ? require_count(key, range) : if_absent;
}

uint32_t ConfigReader::require_count_alias(std::initializer_list<const char *> keys,
                                           CountRange range) const {
  const char *first = nullptr;
  for (const char *key : keys) {
    if (!has(key)) continue;
    if (first != nullptr && require_count(key, range) != require_count(first, range)) {
      fail(key, "it contradicts " + show(first));
    }
    if (first == nullptr) first = key;
  }
  return require_count(first != nullptr ? first : *keys.begin(), range);
}

float ConfigReader::to_positive(const char *key, std::optional<double> number) const {
  const float value = number ? static_cast<float>(*number) : 0.0f;
  if (!std::isfinite(value) || value <= 0.0f) fail(key, "a number above 0 is needed");
  return value;
}

float ConfigReader::require_positive(const char *key) const {
  return to_positive(key, object_.get(key).as_number());
}

float ConfigReader::read_positive(const char *key, float if_absent) const {
  return has(key) ? require_positive(key) : if_absent;
}

bool ConfigReader::read_flag(const char *key, bool if_absent) const {
  if (!has(key)) return if_absent;
  const std::optional<bool> flag = object_.get(key).as_boolean();
  if (!flag) fail(key, "true or false is needed");
  return *flag;
}

std::optional<std::string_view> ConfigReader::read_text(const char *key) const {
  if (!has(key)) return std::nullopt;
  const std::optional<std::string_view> text = object_.get(key).as_string();
  if (!text) fail(key, "a text is needed");
  return text;
}

void ConfigReader::require_text_value(const char *key, std::string_view only) const {
  const std::optional<std::string_view> text = read_text(key);
  if (text && *text != only) {
    fail_unsupported(key, "this version computes '" + std::string(only) + "' only");
  }
}

void ConfigReader::require_flag_value(const char *key, bool only) const {
  if (read_flag(key, only) != only) {
    fail_unsupported(key,
                     std::string("this version computes ") + (only ? "true" : "false") + " only");
  }
}

std::optional<float> ConfigReader::read_number(const char *key) const {
  if (!has(key)) return std::nullopt;
  const std::optional<double> number = object_.get(key).as_number();
  const float value = number ? static_cast<float>(*number) : 0.0f;
  if (!number || !std::isfinite(value)) fail(key, "a number is needed");
  return value;
}

ConfigReader ConfigReader::nested(const char *key) const {
  if (!get(key).is_object()) fail(key, "an object is needed");
  return ConfigReader(get(key), file_ + ": " + key);
}

void ConfigReader::require_absent(const char *key) const {
  if (has(key)) fail_unsupported(key, "this version computes models without it only");
}

std::vector<int64_t> read_stop_ids(JsonValue root, const std::string &file) {
  const ConfigReader reader(root, file);
  const JsonValue value = root.get("eos_token_id");
  std::vector<int64_t> ids;
  if (value.is_null()) return ids;
  const size_t n_values = value.is_array() ? value.size() : 1;
  for (size_t i = 0; i < n_values; ++i) {
    const std::optional<int64_t> id = (value.is_array() ? value.at(i) : value).as_integer();
    if (!id || *id < 0 || *id > INT32_MAX) {
      reader.fail("eos_token_id", "a token id or a list of ids is needed");
    }
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace colibri
