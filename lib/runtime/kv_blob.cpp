// SPDX-License-Identifier: Apache-2.0
//
// KvSlot::save and restore: the form of a saved slot. A header of fixed size, the token ids, the KV
// entries as KvLayout packs them, a checksum over all of it. Every number that decides what the
// entries mean is in the header by itself, so that a refusal can name it. Numbers are
// little-endian, as on every machine this library runs on. The checksum finds damage, not forgery:
// entries and ids are checked for what could do harm by themselves.

#include <bit>
#include <cassert>
#include <cstring>

#include "lib/runtime/kv_pool.h"

static_assert(std::endian::native == std::endian::little,
              "blobs are written as they lie in memory");

namespace colibri {
namespace {

constexpr uint64_t kMagic = 0x31564B4952424C43u;  // "CLBRIKV1"
constexpr uint32_t kVersion = 2;

struct BlobHeader {
  uint64_t magic;
  uint64_t n_bytes;  // of the whole blob, checksum included
  uint32_t version;
  uint32_t kv_type;  // KvType
  uint64_t snapshot_identity;
  uint64_t config_hash;
  uint32_t latent_norm_eps_bits;
  uint32_t activation_mode;
  uint64_t form_hash;  // of heads, widths and window of every layer
  uint32_t n_layers;
  uint32_t index_width;
  uint32_t n_index_layers;
  uint32_t length;  // positions, the same in every layer
};
static_assert(sizeof(BlobHeader) == 72, "no padding: the header is written as it is");

constexpr uint64_t kChecksumBytes = sizeof(uint64_t);

// Every step is a bijection of the state for a given word, and of the word for a given state:
// damage within one word is always found, any other with probability 1 - 2^-64.
uint64_t compute_checksum(const uint8_t *bytes, uint64_t n_bytes) noexcept {
  uint64_t state = n_bytes;
  for (uint64_t at = 0; at < n_bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, n_bytes - at < sizeof word ? n_bytes - at : sizeof word);
    state = std::rotl((state ^ word) * 0x9e3779b97f4a7c15u, 29);
  }
  return state ^ (state >> 32);
}

uint64_t hash_form(const KvLayout &layout) noexcept {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < layout.n_layers(); ++i) {
    const KvLayer &layer = layout.layer(i);
    const uint32_t form[] = {layer.n_heads, layer.key_width, layer.value_width, layer.window};
    uint8_t bytes[sizeof hash + sizeof form];
    std::memcpy(bytes, &hash, sizeof hash);
    std::memcpy(bytes + sizeof hash, form, sizeof form);
    hash = compute_checksum(bytes, sizeof bytes);
  }
  return hash;
}

uint64_t compute_blob_bytes(const KvLayout &layout, uint32_t length) noexcept {
  return sizeof(BlobHeader) + uint64_t{length} * sizeof(int32_t) + layout.blob_bytes(length) +
         kChecksumBytes;
}

BlobHeader make_header(const KvLayout &layout, const KvFingerprint &fingerprint,
                       uint32_t length) noexcept {
  BlobHeader header{};
  header.magic = kMagic;
  header.n_bytes = compute_blob_bytes(layout, length);
  header.version = kVersion;
  header.kv_type = static_cast<uint32_t>(layout.type());
  header.snapshot_identity = fingerprint.snapshot_identity;
  header.config_hash = fingerprint.config_hash;
  header.latent_norm_eps_bits = std::bit_cast<uint32_t>(fingerprint.latent_norm_eps);
  header.activation_mode = fingerprint.activation_mode;
  header.form_hash = hash_form(layout);
  header.n_layers = layout.n_layers();
  header.index_width = layout.index_width();
  header.n_index_layers = layout.n_index_layers();
  header.length = length;
  return header;
}

// Is it a whole, undamaged blob? Reads the header only when it is there.
Status check_whole(std::span<const uint8_t> blob, BlobHeader *header) noexcept {
  if (blob.size() < sizeof(BlobHeader) + kChecksumBytes) {
    return make_status(StatusCode::kFormat,
                       "saved slot: %zu bytes are fewer than the %zu of an empty one", blob.size(),
                       sizeof(BlobHeader) + kChecksumBytes);
  }
  std::memcpy(header, blob.data(), sizeof *header);
  if (header->magic != kMagic) {
    return make_status(StatusCode::kFormat,
                       "saved slot: begins with %016llx instead of %016llx; this is no saved slot",
                       static_cast<unsigned long long>(header->magic),
                       static_cast<unsigned long long>(kMagic));
  }
  if (header->n_bytes != blob.size()) {
    return make_status(StatusCode::kFormat, "saved slot: has %zu bytes but says %llu; it is cut",
                       blob.size(), static_cast<unsigned long long>(header->n_bytes));
  }
  uint64_t stored = 0;
  std::memcpy(&stored, blob.data() + blob.size() - kChecksumBytes, sizeof stored);
  const uint64_t computed = compute_checksum(blob.data(), blob.size() - kChecksumBytes);
  if (stored != computed) {
    return make_status(
        StatusCode::kFormat, "saved slot: checksum is %016llx but should be %016llx; it is damaged",
        static_cast<unsigned long long>(computed), static_cast<unsigned long long>(stored));
  }
  return Status();
}

// The first entry whose exponent has all bits set, or n.
template <typename Bits>
uint64_t find_non_finite_bits(const uint8_t *entries, uint64_t n, Bits exponent) noexcept {
  for (uint64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, entries + i * sizeof bits, sizeof bits);
    if ((bits & exponent) == exponent) return i;
  }
  return n;
}

uint64_t find_non_finite_entry(const uint8_t *entries, uint64_t n, KvType type) noexcept {
  switch (type) {
    case KvType::kF32:
      return find_non_finite_bits<uint32_t>(entries, n, 0x7F800000u);
    case KvType::kBF16:
      return find_non_finite_bits<uint16_t>(entries, n, 0x7F80u);
    case KvType::kF16:
      return find_non_finite_bits<uint16_t>(entries, n, 0x7C00u);
  }
  return n;
}

// A NaN among the keys would meet comparisons that assume there is none.
Status check_entries(const KvLayout &layout, uint32_t length, const uint8_t *entries) noexcept {
  uint64_t n_checked = 0;
  for (uint32_t layer = 0; layer < layout.n_layers(); ++layer) {
    const struct {
      uint64_t n_bytes;
      KvType type;
    } parts[] = {{layout.blob_entry_bytes(layer, length), layout.type()},
                 {layout.blob_index_bytes(layer, length), KvType::kF32}};
    for (const auto &part : parts) {
      const uint64_t n = part.n_bytes / kv_type_bytes(part.type);
      const uint64_t at = find_non_finite_entry(entries, n, part.type);
      if (at < n) {
        const unsigned long long entry = n_checked + at;
        return make_status(StatusCode::kFormat, "saved slot: KV entry %llu is not a finite number",
                           entry);
      }
      n_checked += n;
      entries += part.n_bytes;
    }
  }
  return Status();
}

const char *type_name(uint32_t kv_type) noexcept {
  return kv_type <= static_cast<uint32_t>(KvType::kF16) ? kv_type_name(static_cast<KvType>(kv_type))
                                                        : "unknown";
}

Status refuse(const char *what, uint64_t found, uint64_t expected) noexcept {
  return make_status(
      StatusCode::kMismatch, "saved slot: %s is %llu, this model has %llu; compute the tokens anew",
      what, static_cast<unsigned long long>(found), static_cast<unsigned long long>(expected));
}

Status check_belongs(const BlobHeader &found, const BlobHeader &wanted) noexcept {
  if (found.version != wanted.version) {
    return refuse("version of the form", found.version, wanted.version);
  }
  if (found.snapshot_identity != wanted.snapshot_identity) {
    return refuse("snapshot identity", found.snapshot_identity, wanted.snapshot_identity);
  }
  if (found.n_layers != wanted.n_layers) {
    return refuse("number of layers", found.n_layers, wanted.n_layers);
  }
  if (found.kv_type != wanted.kv_type) {
    return make_status(StatusCode::kMismatch,
                       "saved slot: kv_type is %s, this model has %s; compute the tokens anew",
                       type_name(found.kv_type), type_name(wanted.kv_type));
  }
  if (found.form_hash != wanted.form_hash) {
    return refuse("hash of the layers' heads, widths and windows", found.form_hash,
                  wanted.form_hash);
  }
  if (found.index_width != wanted.index_width) {
    return refuse("width of an indexer key", found.index_width, wanted.index_width);
  }
  if (found.n_index_layers != wanted.n_index_layers) {
    return refuse("number of indexer layers", found.n_index_layers, wanted.n_index_layers);
  }
  if (found.config_hash != wanted.config_hash) {
    return refuse("hash of the config", found.config_hash, wanted.config_hash);
  }
  if (found.latent_norm_eps_bits != wanted.latent_norm_eps_bits) {
    return make_status(StatusCode::kMismatch,
                       "saved slot: latent_norm_eps is %g, this model runs with %g",
                       static_cast<double>(std::bit_cast<float>(found.latent_norm_eps_bits)),
                       static_cast<double>(std::bit_cast<float>(wanted.latent_norm_eps_bits)));
  }
  if (found.activation_mode != wanted.activation_mode) {
    return refuse("activation mode", found.activation_mode, wanted.activation_mode);
  }
  return Status();
}

}  // namespace

uint64_t KvSlot::blob_bytes() const noexcept {
  return compute_blob_bytes(*layout_, length());
}

void KvSlot::save(const KvFingerprint &fingerprint, uint8_t *blob) const noexcept {
  const BlobHeader header = make_header(*layout_, fingerprint, length());
  uint8_t *next = blob;
  std::memcpy(next, &header, sizeof header);
  next += sizeof header;
  if (!tokens_.empty()) std::memcpy(next, tokens_.data(), tokens_.size() * sizeof(int32_t));
  next += tokens_.size() * sizeof(int32_t);
  layout_->save_prefix(data_, length(), next);
  next += layout_->blob_bytes(length());
  const uint64_t checksum = compute_checksum(blob, static_cast<uint64_t>(next - blob));
  std::memcpy(next, &checksum, sizeof checksum);
}

Status KvSlot::restore(const KvFingerprint &fingerprint, std::span<const uint8_t> blob) noexcept {
  truncate(0);
  BlobHeader header = {};
  Status status = check_whole(blob, &header);
  if (!status.is_ok()) return status;
  status = check_belongs(header, make_header(*layout_, fingerprint, header.length));
  if (!status.is_ok()) return status;
  if (header.length > capacity()) {
    return make_status(StatusCode::kContext, "saved slot: has %u positions, this slot holds %u",
                       header.length, capacity());
  }
  if (compute_blob_bytes(*layout_, header.length) != blob.size()) {
    return make_status(
        StatusCode::kFormat, "saved slot: %u positions take %llu bytes, it has %zu", header.length,
        static_cast<unsigned long long>(compute_blob_bytes(*layout_, header.length)), blob.size());
  }
  const uint8_t *next = blob.data() + sizeof header;
  for (uint32_t position = 0; position < header.length; ++position) {
    int32_t token;
    std::memcpy(&token, next, sizeof token);
    next += sizeof token;
    if (token < 0 || static_cast<uint32_t>(token) >= fingerprint.vocabulary_size) {
      truncate(0);
      return make_status(StatusCode::kFormat,
                         "saved slot: token at position %u is %d; must be 0..%u", position, token,
                         fingerprint.vocabulary_size - 1);
    }
    tokens_.push_back(token);
  }
  status = check_entries(*layout_, header.length, next);
  if (!status.is_ok()) {
    truncate(0);
    return status;
  }
  layout_->restore_prefix(data_, header.length, next);
  first_held_ = layout_->first_needed(header.length);
  return Status();
}

}  // namespace colibri
