// SPDX-License-Identifier: Apache-2.0
//
// Encoding: the order of the stages. Text is repaired, cut at added tokens, normalised, cut again,
// split into pieces, and each piece goes through the model. All state is local to the call.

#include "lib/tokenizer/tokenizer.h"

#include <optional>

#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/piece_cache.h"
#include "lib/tokenizer/tokenizer_impl.h"

namespace colibri {
namespace {

// A cache of 512 KiB is made for texts of this size on; a short text repeats few pieces.
constexpr size_t kCachedTextBytes = 16u << 10;
constexpr size_t kCacheEntries = 8192;

// One call of encode().
class Encoder {
 public:
  Encoder(const Tokenizer::Impl &impl, ControlTokens control, std::vector<int32_t> *ids)
      : impl_(impl), control_(control), ids_(*ids), matchers_(impl.pre_tokenizer.make_matchers()) {}

  // starts_text: nothing of the input stands before it.
  void encode(std::string_view text, bool starts_text) {
    if (text.size() >= kCachedTextBytes) cache_.emplace(kCacheEntries);
    impl_.raw_tokens.split(text, control_, [&](const TokenPart &part) {
      if (part.id >= 0) {
        ids_.push_back(part.id);
      } else {
        encode_normalized(text.substr(part.begin, part.end - part.begin),
                          starts_text && part.begin == 0);
      }
    });
  }

 private:
  void encode_normalized(std::string_view text, bool starts_text) {
    if (!impl_.normalizer.is_identity()) {
      impl_.normalizer.normalize(text, &normalized_);
      text = normalized_;
    }
    impl_.normalized_tokens.split(text, control_, [&](const TokenPart &part) {
      if (part.id >= 0) {
        ids_.push_back(part.id);
        return;
      }
      impl_.pre_tokenizer.split(text.substr(part.begin, part.end - part.begin),
                                starts_text && part.begin == 0, &matchers_,
                                [&](std::string_view piece) { encode_piece(piece); });
    });
  }

  void encode_piece(std::string_view piece) {
    if (!cache_ || piece.size() > PieceCache::kMaxBytes) {
      impl_.model.encode_piece(piece, &scratch_, &ids_);
      return;
    }
    const uint64_t hash = cache_->hash(piece);
    if (cache_->append(piece, hash, &ids_)) return;
    const size_t begin = ids_.size();
    impl_.model.encode_piece(piece, &scratch_, &ids_);
    cache_->store(piece, hash, ids_.data() + begin, ids_.size() - begin);
  }

  const Tokenizer::Impl &impl_;
  ControlTokens control_;
  std::vector<int32_t> &ids_;
  PreTokenizer::Matchers matchers_;
  BpeScratch scratch_;
  std::string normalized_;
  std::optional<PieceCache> cache_;
};

void encode_checked(const Tokenizer::Impl &impl, std::string_view text, ControlTokens control,
                    bool starts_text, std::vector<int32_t> *ids) {
  if (text.size() > kMaxTextBytes) {
    throw_error(StatusCode::kArgument,
                "a text of %zu bytes is too long to encode; at most %llu are taken", text.size(),
                static_cast<unsigned long long>(kMaxTextBytes));
  }
  std::string repaired;
  if (count_valid_utf8(text) != text.size()) {
    repaired = replace_invalid_utf8(text);
    text = repaired;
  }
  Encoder(impl, control, ids).encode(text, starts_text);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

uint32_t Tokenizer::size() const noexcept {
  return static_cast<uint32_t>(impl_->tokens.size());
}

void Tokenizer::encode(std::string_view text, ControlTokens control,
                       std::vector<int32_t> *ids) const {
  encode_checked(*impl_, text, control, true, ids);
}

void Tokenizer::encode_continued(std::string_view text, ControlTokens control,
                                 std::vector<int32_t> *ids) const {
  encode_checked(*impl_, text, control, false, ids);
}

const ChatTemplate &Tokenizer::chat_template() const noexcept {
  return impl_->chat_template;
}

const std::vector<int32_t> &Tokenizer::prefix_ids() const noexcept {
  return impl_->prefix_ids;
}

std::string_view Tokenizer::token_bytes(int32_t id) const noexcept {
  return impl_->tokens.contains(id) ? impl_->tokens.bytes(id) : std::string_view();
}

bool Tokenizer::is_special(int32_t id) const noexcept {
  return impl_->tokens.contains(id) && impl_->tokens.is_special(id);
}

std::optional<int32_t> Tokenizer::find_token(std::string_view text) const noexcept {
  int32_t id = impl_->added_ids.find(text);
  if (id < 0) id = impl_->model.find(text);
  if (id < 0) return std::nullopt;
  return id;
}

}  // namespace colibri
