// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer.json to a Tokenizer: the order of the sections, the table of all ids, and the prefix
// of the post-processor. Each section's own form is the business of its reader.

#include <algorithm>

#include "lib/base/file.h"
#include "lib/base/status.h"
#include "lib/snapshot/json.h"
#include "lib/tokenizer/section.h"
#include "lib/tokenizer/tokenizer_impl.h"

namespace colibri {
namespace {

// Puts the vocabulary and the added tokens in one table by id, and refuses two texts for one id or
// two ids for one text.
class SpellingCollector {
 public:
  SpellingCollector(const BpeModel &model, const std::string &name) : model_(model), name_(name) {}

  void add_vocabulary(const JsonValue &vocabulary) {
    spellings_.reserve(vocabulary.size() + 2048);
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      TokenSpelling &place = place_of(static_cast<int32_t>(*vocabulary.at(i).as_integer()));
      const std::string_view text = vocabulary.key_at(i);
      if (place.is_present) refuse_second_text(place.text, text);
      place = {text, true, false, false};
    }
    n_model_ = spellings_.size();
  }

  void add(const AddedToken &token) {
    const int32_t id_in_model = model_.find(token.text);
    if (id_in_model >= 0 && id_in_model != token.id) {
      throw_error(StatusCode::kFormat, "%s: added token \"%.*s\" has id %d, but %d in model.vocab",
                  name_.c_str(), print_length(token.text), token.text.c_str(), token.id,
                  id_in_model);
    }
    TokenSpelling &place = place_of(token.id);
    if (place.is_present && place.text != token.text) refuse_second_text(place.text, token.text);
    const bool was_special = place.is_special;
    place = {token.text, true, true, token.is_special || was_special};
  }

  const std::vector<TokenSpelling> &finish() const {
    for (size_t i = 0; i < n_model_; ++i) {
      if (spellings_[i].is_present) continue;
      throw_error(
          StatusCode::kFormat,
          "%s: no token has id %zu, but ids go up to %zu in model.vocab; the file is damaged",
          name_.c_str(), i, n_model_ - 1);
    }
    return spellings_;
  }

 private:
  TokenSpelling &place_of(int32_t id) {
    const auto i = static_cast<size_t>(id);
    if (i >= spellings_.size()) spellings_.resize(i + 1);
    return spellings_[i];
  }
  [[noreturn]] void refuse_second_text(std::string_view first, std::string_view second) const {
    throw_error(StatusCode::kFormat, "%s: \"%.*s\" and \"%.*s\" have the same token id",
                name_.c_str(), print_length(first), first.data(), print_length(second),
                second.data());
  }

  const BpeModel &model_;
  const std::string &name_;
  std::vector<TokenSpelling> spellings_;
  size_t n_model_ = 0;  // largest id of the vocabulary + 1
};

void add_to_finders(const std::vector<AddedToken> &tokens, const std::string &name,
                    Tokenizer::Impl *impl) {
  std::string normalized;
  for (const AddedToken &token : tokens) {
    if (!impl->added_ids.insert(token.text, token.id) &&
        impl->added_ids.find(token.text) != token.id) {
      throw_error(StatusCode::kFormat, "%s: added token \"%.*s\" has two ids", name.c_str(),
                  print_length(token.text), token.text.c_str());
    }
    if (!token.is_normalized) {
      impl->raw_tokens.add(token.text, token);
      continue;
    }
    impl->normalizer.normalize(token.text, &normalized);
    impl->normalized_tokens.add(normalized, token);
  }
}

// Ids of the special tokens before the text in TemplateProcessing.single.
void read_template_prefix(const JsonValue &section, const std::string &name,
                          std::vector<int32_t> *ids) {
  const JsonValue single = section.get("single");
  for (size_t i = 0; i < single.size(); ++i) {
    const JsonValue special = single.at(i).get("SpecialToken");
    if (!special.is_object()) return;
    const std::string_view key = special.get("id").as_string().value_or("");
    const JsonValue token_ids = section.get("special_tokens").get(key).get("ids");
    if (token_ids.size() == 0) {
      throw_error(StatusCode::kFormat, "%s: post_processor.special_tokens has no ids for \"%.*s\"",
                  name.c_str(), print_length(key), key.data());
    }
    for (size_t k = 0; k < token_ids.size(); ++k) {
      const std::optional<int64_t> id = token_ids.at(k).as_integer();
      if (!id || *id < 0 || *id > kMaxTokenId) {
        throw_error(StatusCode::kFormat, "%s: post_processor: an id of \"%.*s\" is not a token id",
                    name.c_str(), print_length(key), key.data());
      }
      ids->push_back(static_cast<int32_t>(*id));
    }
  }
}

void read_prefix(const JsonValue &section, const std::string &name, int depth,
                 std::vector<int32_t> *ids) {
  if (section.is_null()) return;
  const std::string_view type = section.get("type").as_string().value_or("");
  if (type == "Sequence" && depth < kMaxSequenceDepth) {
    const JsonValue parts = section.get("processors");
    for (size_t i = 0; i < parts.size(); ++i) read_prefix(parts.at(i), name, depth + 1, ids);
  } else if (type == "TemplateProcessing") {
    read_template_prefix(section, name, ids);
  } else if (type != "ByteLevel") {
    throw_error(StatusCode::kUnsupported,
                "%s: post_processor \"%.*s\" is not supported; TemplateProcessing, ByteLevel and "
                "Sequence are",
                name.c_str(), print_length(type), type.data());
  }
}

void check_prefix(const Tokenizer::Impl &impl, const std::string &name) {
  const auto is_missing = [&](int32_t id) { return !impl.tokens.contains(id); };
  const auto missing = std::find_if(impl.prefix_ids.begin(), impl.prefix_ids.end(), is_missing);
  if (missing == impl.prefix_ids.end()) return;
  throw_error(StatusCode::kFormat, "%s: post_processor uses id %d, but the largest token id is %zu",
              name.c_str(), *missing, impl.tokens.size() - 1);
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_json(std::string_view json, const std::string &name) {
  const JsonDocument document = JsonDocument::parse(json, name);
  const JsonValue root = document.root();
  if (!root.is_object() || !root.get("model").is_object()) {
    throw_error(StatusCode::kFormat, "%s: there is no \"model\" section; this is no tokenizer file",
                name.c_str());
  }
  auto impl = std::make_unique<Impl>();
  impl->normalizer = Normalizer::read(root.get("normalizer"), name);
  impl->pre_tokenizer = PreTokenizer::read(root.get("pre_tokenizer"), name);
  impl->decoder = DecoderRules::read(root.get("decoder"), name);
  impl->model = BpeModel::read(root.get("model"), impl->pre_tokenizer.is_byte_level(), name);

  const std::vector<AddedToken> added = read_added_tokens(root.get("added_tokens"), name);
  SpellingCollector spellings(impl->model, name);
  spellings.add_vocabulary(root.get("model").get("vocab"));
  for (const AddedToken &token : added) spellings.add(token);
  impl->tokens = TokenTable(spellings.finish(), impl->decoder);
  add_to_finders(added, name, impl.get());
  read_prefix(root.get("post_processor"), name, 0, &impl->prefix_ids);
  check_prefix(*impl, name);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

std::unique_ptr<Tokenizer> Tokenizer::open(const std::string &path) {
  const std::string file = directory_exists(path) ? join_path(path, "tokenizer.json") : path;
  const std::vector<uint8_t> bytes = read_whole_file(file, kMaxJsonBytes);
  auto tokenizer = from_json({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, file);
  tokenizer->impl_->chat_template = read_chat_template(parent_directory(file));
  return tokenizer;
}

}  // namespace colibri
