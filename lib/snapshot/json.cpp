// SPDX-License-Identifier: Apache-2.0
//
// The JSON document: nlohmann's SAX events fill three arrays and nothing else. Values of 16 bytes
// lie in `nodes`, the members of one container side by side (an object's as key, value, key,
// value), all text in `characters`, hash tables of large objects in `slots`. A container's members
// wait on a stack until it closes, so its place is known only then; that is what makes at()
// constant-time without pointers.
//
// Floats are converted again from their spelling, because nlohmann's conversion goes through strtod
// and the host's locale.

#include "lib/snapshot/json.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lib/base/status.h"
#include "lib/snapshot/hash.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

using Kind = JsonValue::Kind;

// Objects up to this size are searched member by member.
constexpr uint32_t kLinearMembers = 12;
constexpr uint32_t kNoSlot = 0xffffffffu;
constexpr uint32_t kNoTable = 0xffffffffu;

struct Node {
  // Integers and floats: their bits. Strings: offset into characters (low half) and, for keys, the
  // byte of the source behind them (high half). Containers: first member in nodes (low half), table
  // in slots (high half).
  uint64_t payload = 0;
  uint32_t size = 0;  // bytes of a string, members of a container, 0 or 1 of a boolean
  Kind kind = Kind::kNull;

  uint32_t low() const noexcept { return static_cast<uint32_t>(payload); }
  uint32_t high() const noexcept { return static_cast<uint32_t>(payload >> 32); }
};

uint64_t join_halves(uint64_t low, uint64_t high) noexcept {
  return (high << 32) | low;
}

uint32_t table_capacity(uint32_t n_members) noexcept {
  uint32_t capacity = 32;
  while (capacity < 2 * static_cast<uint64_t>(n_members)) capacity *= 2;
  return capacity;
}

}  // namespace

struct JsonStorage {
  std::string name;
  std::vector<Node> nodes;
  std::vector<char> characters;
  std::vector<uint32_t> slots;
  uint32_t root = 0;
  uint64_t seed = 0;

  std::string_view text_of(const Node &node) const noexcept {
    return {characters.data() + node.low(), node.size};
  }

  // Index in `nodes` of the key equal to `key`, or kNoSlot.
  uint32_t find_key(const Node &object, std::string_view key) const noexcept {
    if (object.high() == kNoTable) {
      for (uint32_t i = 0; i < object.size; ++i) {
        if (text_of(nodes[object.low() + 2 * i]) == key) return object.low() + 2 * i;
      }
      return kNoSlot;
    }
    const uint32_t mask = table_capacity(object.size) - 1;
    for (uint64_t probe = hash_bytes(key, seed);; ++probe) {
      const uint32_t member = slots[object.high() + (probe & mask)];
      if (member == kNoSlot) return kNoSlot;
      if (text_of(nodes[object.low() + 2 * member]) == key) return object.low() + 2 * member;
    }
  }
};

namespace {

// Walks the text and tells where the parser is, for messages of errors that nlohmann does not
// detect itself.
struct TrackingIterator {
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  const char *next = nullptr;
  const char **furthest = nullptr;

  reference operator*() const noexcept { return *next; }
  TrackingIterator &operator++() noexcept {
    *furthest = ++next;
    return *this;
  }
  TrackingIterator operator++(int) noexcept {
    const TrackingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackingIterator &other) const noexcept { return next == other.next; }
  bool operator!=(const TrackingIterator &other) const noexcept { return next != other.next; }
};

// nlohmann's text without its "[json.exception...] " prefix, in printable ASCII.
std::string describe_fault(const char *what) {
  const char *text = std::strstr(what, "] ");
  std::string described = text != nullptr ? text + 2 : what;
  for (char &letter : described) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return described;
}

class DocumentBuilder {
 public:
  DocumentBuilder(JsonStorage *storage, std::string_view text)
      : storage_(*storage), text_(text), position_(text.data()) {}

  const char **position() noexcept { return &position_; }

  bool null() { return push({}); }
  bool boolean(bool flag) { return push({0, flag ? 1u : 0u, Kind::kBoolean}); }
  bool number_integer(int64_t number) {
    return push({static_cast<uint64_t>(number), 0, Kind::kInteger});
  }
  bool number_unsigned(uint64_t number) { return push({number, 0, Kind::kUnsigned}); }
  bool number_float(double, const std::string &spelling) {
    spelling_ = spelling;
    for (char &letter : spelling_) {
      // What is not part of a JSON number is the locale's decimal point, which the lexer has put
      // in.
      if (std::strchr("0123456789+-eE", letter) == nullptr) letter = '.';
    }
    double number = 0;
    const char *end = spelling_.data() + spelling_.size();
    const auto result = std::from_chars(spelling_.data(), end, number);
    if (result.ptr != end || result.ec != std::errc()) {
      fail("the number " + spelling_.substr(0, 40) + " is outside the range of a double");
    }
    return push({std::bit_cast<uint64_t>(number), 0, Kind::kFloat});
  }
  bool string(const std::string &text) { return push(store(text, 0)); }
  bool binary(std::vector<uint8_t> &) { return false; }  // not produced by JSON text
  bool key(const std::string &text) { return push(store(text, offset())); }

  bool start_object(size_t) { return open(); }
  bool start_array(size_t) { return open(); }
  bool end_object() {
    const size_t first = starts_.back();
    const uint32_t n_members = static_cast<uint32_t>((pending_.size() - first) / 2);
    const uint32_t table = index_members(pending_.data() + first, n_members);
    return close(Kind::kObject, n_members, table);
  }
  bool end_array() {
    const size_t n_members = pending_.size() - starts_.back();
    return close(Kind::kArray, static_cast<uint32_t>(n_members), kNoTable);
  }

  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &fault) {
    throw_error(StatusCode::kFormat, "%s: not valid JSON at byte %zu: %s", storage_.name.c_str(),
                position, describe_fault(fault.what()).c_str());
  }

  void finish() {
    storage_.root = static_cast<uint32_t>(storage_.nodes.size());
    storage_.nodes.push_back(pending_.at(0));
  }

  [[noreturn]] void fail(const std::string &reason) const { fail_at(offset(), reason); }

 private:
  uint64_t offset() const noexcept { return static_cast<uint64_t>(position_ - text_.data()); }

  [[noreturn]] void fail_at(uint64_t where, const std::string &reason) const {
    throw_error(StatusCode::kFormat, "%s: not acceptable JSON before byte %llu: %s",
                storage_.name.c_str(), static_cast<unsigned long long>(where), reason.c_str());
  }

  bool push(const Node &node) {
    pending_.push_back(node);
    return true;
  }

  Node store(const std::string &text, uint64_t source_position) {
    const uint64_t place = storage_.characters.size();
    storage_.characters.insert(storage_.characters.end(), text.begin(), text.end());
    return {join_halves(place, source_position), static_cast<uint32_t>(text.size()), Kind::kString};
  }

  bool open() {
    if (starts_.size() == static_cast<size_t>(kMaxJsonDepth)) {
      fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    starts_.push_back(pending_.size());
    return true;
  }

  bool close(Kind kind, uint32_t n_members, uint32_t table) {
    const size_t first = starts_.back();
    starts_.pop_back();
    const uint64_t place = storage_.nodes.size();
    storage_.nodes.insert(storage_.nodes.end(),
                          pending_.begin() + static_cast<std::ptrdiff_t>(first), pending_.end());
    pending_.resize(first);
    return push({join_halves(place, table), n_members, kind});
  }

  // Finds duplicate keys; returns the place of the hash table, or kNoTable for a small object.
  uint32_t index_members(const Node *members, uint32_t n_members) {
    if (n_members <= kLinearMembers) {
      for (uint32_t i = 1; i < n_members; ++i) {
        for (uint32_t j = 0; j < i; ++j) reject_equal(members[2 * i], members[2 * j]);
      }
      return kNoTable;
    }
    std::vector<uint32_t> &slots = storage_.slots;
    const uint32_t table = static_cast<uint32_t>(slots.size());
    const uint32_t capacity = table_capacity(n_members);
    slots.resize(slots.size() + capacity, kNoSlot);
    for (uint32_t i = 0; i < n_members; ++i) {
      uint64_t probe = hash_bytes(storage_.text_of(members[2 * i]), storage_.seed);
      uint32_t *slot = &slots[table + (probe & (capacity - 1))];
      while (*slot != kNoSlot) {
        reject_equal(members[2 * i], members[2 * *slot]);
        slot = &slots[table + (++probe & (capacity - 1))];
      }
      *slot = i;
    }
    return table;
  }

  void reject_equal(const Node &later, const Node &earlier) const {
    if (storage_.text_of(later) != storage_.text_of(earlier)) return;
    const std::string key = printable(storage_.text_of(later));
    fail_at(later.high(), "the key \"" + key + "\" occurs twice in one object");
  }

  JsonStorage &storage_;
  std::string_view text_;
  const char *position_;
  std::vector<Node> pending_;   // members of containers that are still open
  std::vector<size_t> starts_;  // where each open container's members begin in pending_
  std::string spelling_;
};

}  // namespace

JsonValue::Kind JsonValue::kind() const noexcept {
  return storage_ != nullptr ? storage_->nodes[node_].kind : Kind::kNull;
}

std::optional<bool> JsonValue::as_boolean() const noexcept {
  if (kind() != Kind::kBoolean) return std::nullopt;
  return storage_->nodes[node_].size != 0;
}

std::optional<int64_t> JsonValue::as_integer() const noexcept {
  const Kind actual = kind();
  if (actual == Kind::kInteger) return static_cast<int64_t>(storage_->nodes[node_].payload);
  if (actual == Kind::kUnsigned) {
    const uint64_t number = storage_->nodes[node_].payload;
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (actual != Kind::kFloat) return std::nullopt;
  const double number = std::bit_cast<double>(storage_->nodes[node_].payload);
  // -2^63 is a double, 2^63 - 1 is not.
  if (!(number >= -0x1p63 && number < 0x1p63) || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<uint64_t> JsonValue::as_unsigned() const noexcept {
  if (kind() == Kind::kUnsigned) return storage_->nodes[node_].payload;
  const std::optional<int64_t> number = as_integer();
  if (!number || *number < 0) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

std::optional<double> JsonValue::as_number() const noexcept {
  switch (kind()) {
    case Kind::kInteger:
      return static_cast<double>(static_cast<int64_t>(storage_->nodes[node_].payload));
    case Kind::kUnsigned:
      return static_cast<double>(storage_->nodes[node_].payload);
    case Kind::kFloat:
      return std::bit_cast<double>(storage_->nodes[node_].payload);
    default:
      return std::nullopt;
  }
}

std::optional<std::string_view> JsonValue::as_string() const noexcept {
  if (kind() != Kind::kString) return std::nullopt;
  return storage_->text_of(storage_->nodes[node_]);
}

size_t JsonValue::size() const noexcept {
  return is_array() || is_object() ? storage_->nodes[node_].size : 0;
}

JsonValue JsonValue::at(size_t index) const noexcept {
  if (index >= size()) return {};
  const uint32_t first = storage_->nodes[node_].low();
  const uint32_t member = static_cast<uint32_t>(index);
  return {storage_, is_object() ? first + 2 * member + 1 : first + member};
}

std::string_view JsonValue::key_at(size_t index) const noexcept {
  if (!is_object() || index >= size()) return {};
  const uint32_t first = storage_->nodes[node_].low();
  return storage_->text_of(storage_->nodes[first + 2 * static_cast<uint32_t>(index)]);
}

JsonValue JsonValue::get(std::string_view key) const noexcept {
  if (!is_object()) return {};
  const uint32_t found = storage_->find_key(storage_->nodes[node_], key);
  return found != kNoSlot ? JsonValue(storage_, found + 1) : JsonValue();
}

bool JsonValue::has(std::string_view key) const noexcept {
  return is_object() && storage_->find_key(storage_->nodes[node_], key) != kNoSlot;
}

JsonDocument::JsonDocument(std::unique_ptr<JsonStorage> storage) noexcept
    : storage_(std::move(storage)) {}
JsonDocument::JsonDocument(JsonDocument &&) noexcept = default;
JsonDocument &JsonDocument::operator=(JsonDocument &&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonDocument JsonDocument::parse(std::string_view text, const std::string &name) {
  if (text.size() > kMaxJsonBytes) {
    throw_error(StatusCode::kFormat, "%s: JSON of %zu bytes; at most %llu are read", name.c_str(),
                text.size(), static_cast<unsigned long long>(kMaxJsonBytes));
  }
  auto storage = std::make_unique<JsonStorage>();
  storage->name = name;
  // The address differs from run to run, so that nobody can prepare keys that collide.
  storage->seed = hash_bytes({}, reinterpret_cast<uintptr_t>(storage.get()));
  storage->characters.reserve(text.size() / 2);
  DocumentBuilder builder(storage.get(), text);
  // A zero byte would end nlohmann's input early; it is not JSON anywhere.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw_error(StatusCode::kFormat, "%s: not valid JSON at byte %zu: a zero byte", name.c_str(),
                zero + 1);
  }
  const TrackingIterator first{text.data(), builder.position()};
  const TrackingIterator last{text.data() + text.size(), builder.position()};
  if (!nlohmann::json::sax_parse(first, last, &builder)) builder.fail("not a JSON text");
  builder.finish();
  return JsonDocument(std::move(storage));
}

JsonValue JsonDocument::root() const noexcept {
  return {storage_.get(), storage_->root};
}
const std::string &JsonDocument::name() const noexcept {
  return storage_->name;
}

}  // namespace colibri
