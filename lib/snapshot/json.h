// SPDX-License-Identifier: Apache-2.0
//
// Bounded JSON reading and plain JSON writing. json.cpp is the only includer of nlohmann/json; it
// uses its SAX interface to fill one flat document, so that a tokenizer file of 10 MB costs one
// pass and few allocations. Refused with Error(kFormat), file, and byte position: syntax errors,
// trailing bytes, invalid UTF-8, nesting deeper than kMaxJsonDepth, duplicate keys in one object.
// Numbers do not depend on the locale.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

constexpr int kMaxJsonDepth = 64;
constexpr uint64_t kMaxJsonBytes = 256ull << 20;

class JsonDocument;
struct JsonStorage;  // in json.cpp

// A view of one value; valid while its document lives, also when that is moved. Cheap to copy.
// Accessors never throw: a value of another kind gives nullopt, an empty view, or size 0.
class JsonValue {
 public:
  enum class Kind : uint8_t {
    kNull,
    kBoolean,
    kInteger,
    kUnsigned,
    kFloat,
    kString,
    kArray,
    kObject
  };

  JsonValue() noexcept = default;  // null
  Kind kind() const noexcept;
  bool is_null() const noexcept { return kind() == Kind::kNull; }
  bool is_object() const noexcept { return kind() == Kind::kObject; }
  bool is_array() const noexcept { return kind() == Kind::kArray; }
  bool is_string() const noexcept { return kind() == Kind::kString; }

  std::optional<bool> as_boolean() const noexcept;
  std::optional<int64_t> as_integer() const noexcept;    // also from a float with an integral value
  std::optional<uint64_t> as_unsigned() const noexcept;  // likewise; nullopt for a negative number
  std::optional<double> as_number() const noexcept;      // integer or float spelling alike
  std::optional<std::string_view> as_string() const noexcept;

  size_t size() const noexcept;  // members of an array or object
  // Array element, or object value in file order; in constant time.
  JsonValue at(size_t index) const noexcept;
  std::string_view key_at(size_t index) const noexcept;  // object key in file order
  // Object member by key; null value if absent (has() tells apart). Linear in small objects, hashed
  // in large.
  JsonValue get(std::string_view key) const noexcept;
  bool has(std::string_view key) const noexcept;

 private:
  friend class JsonDocument;
  JsonValue(const JsonStorage *storage, uint32_t node) noexcept : storage_(storage), node_(node) {}
  const JsonStorage *storage_ = nullptr;
  uint32_t node_ = 0;
};

class JsonDocument {
 public:
  // Parses exactly `text` (no terminator needed). `name` is used in messages. Throws
  // Error(kFormat).
  static JsonDocument parse(std::string_view text, const std::string &name);
  JsonDocument(JsonDocument &&) noexcept;
  JsonDocument &operator=(JsonDocument &&) noexcept;
  ~JsonDocument();

  JsonValue root() const noexcept;
  const std::string &name() const noexcept;

 private:
  explicit JsonDocument(std::unique_ptr<JsonStorage> storage) noexcept;
  std::unique_ptr<JsonStorage> storage_;
};

// Builds compact JSON text in order of calls. Strings are escaped; invalid UTF-8 is replaced by
// U+FFFD; a float that is not finite is written as null. Numbers are shortest-exact and
// locale-free.
class JsonWriter {
 public:
  JsonWriter &begin_object();
  JsonWriter &end_object();
  JsonWriter &begin_array();
  JsonWriter &end_array();
  JsonWriter &key(std::string_view name);
  JsonWriter &value(std::string_view text);
  JsonWriter &value(const char *text) { return value(std::string_view(text)); }
  JsonWriter &value(bool flag);
  JsonWriter &value(int64_t number);
  JsonWriter &value(uint64_t number);
  JsonWriter &value(int32_t number) { return value(static_cast<int64_t>(number)); }
  JsonWriter &value(uint32_t number) { return value(static_cast<uint64_t>(number)); }
  JsonWriter &value(double number);
  JsonWriter &null();
  // Writes an already parsed value as it is (config.json into `inspect`).
  JsonWriter &value(const JsonValue &parsed);
  const std::string &text() const noexcept { return text_; }

 private:
  void separate();
  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace colibri
