// SPDX-License-Identifier: Apache-2.0
//
// Open addressing with linear probing; 32 bits of the hash stand in the slot, so that texts are
// compared almost only when they are equal.

#include "lib/tokenizer/token_map.h"

#include <bit>

#include "lib/base/status.h"

namespace colibri {

void TokenMap::reserve(size_t n_texts, size_t n_bytes) {
  texts_.reserve(n_bytes);
  const size_t n_slots = std::bit_ceil(n_texts + n_texts / 2 + 8);
  if (n_slots > slots_.size()) grow(n_slots);
}

size_t TokenMap::find_slot(std::string_view text, uint32_t text_hash) const noexcept {
  const size_t mask = slots_.size() - 1;
  size_t i = text_hash & mask;
  while (slots_[i].id >= 0) {
    const Slot &slot = slots_[i];
    if (slot.hash == text_hash &&
        std::string_view(texts_).substr(slot.offset, slot.length) == text) {
      break;
    }
    i = (i + 1) & mask;
  }
  return i;
}

bool TokenMap::insert(std::string_view text, int32_t id) {
  if (slots_.empty() || (n_texts_ + 1) * 4 > slots_.size() * 3) {
    grow(slots_.empty() ? 16 : slots_.size() * 2);
  }
  if (texts_.size() + text.size() > UINT32_MAX) {
    throw_error(StatusCode::kFormat, "the texts of the tokens exceed 4 GiB");
  }
  const auto text_hash = static_cast<uint32_t>(hash(text));
  Slot &slot = slots_[find_slot(text, text_hash)];
  if (slot.id >= 0) return false;
  slot = {text_hash, id, static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(text.size())};
  texts_.append(text);
  ++n_texts_;
  return true;
}

int32_t TokenMap::find(std::string_view text) const noexcept {
  if (slots_.empty()) return -1;
  return slots_[find_slot(text, static_cast<uint32_t>(hash(text)))].id;
}

void TokenMap::grow(size_t n_slots) {
  std::vector<Slot> old(n_slots);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot &slot : old) {
    if (slot.id < 0) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].id >= 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

}  // namespace colibri
