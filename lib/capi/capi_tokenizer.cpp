// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/tokenizer.h: text to ids and back, chats, streams.

#include "colibri/tokenizer.h"

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "lib/capi/guard.h"
#include "lib/capi/objects.h"
#include "lib/capi/out_buffers.h"
#include "lib/capi/sized_struct.h"
#include "lib/tokenizer/chat_layout.h"

namespace colibri {
namespace {

constexpr size_t kMaxMessages = 65536;
constexpr size_t kMaxIds = size_t{1} << 32;

ControlTokens read_control(int32_t control) {
  if (control == COLIBRI_CONTROL_PLAIN) return ControlTokens::kPlain;
  if (control == COLIBRI_CONTROL_ALLOWED) return ControlTokens::kAllowed;
  throw_error(StatusCode::kArgument, "control is %d; must be 0 (plain) or 1 (allowed)", control);
}

bool read_skip_special(int32_t skip_special) {
  if (skip_special == 0 || skip_special == 1) return skip_special == 1;
  throw_error(StatusCode::kArgument, "skip_special is %d; must be 0 or 1", skip_special);
}

// Elements of an array of the caller; NULL only if there are none.
void require_array(const void *array, size_t count, size_t largest, const char *name) {
  if (count > largest) {
    throw_error(StatusCode::kArgument, "%s has %zu elements; the limit is %zu", name, count,
                largest);
  }
  if (array == nullptr && count != 0) {
    throw_error(StatusCode::kArgument, "%s is NULL with %zu elements", name, count);
  }
}

ChatRole read_role(int32_t role, size_t index) {
  switch (role) {
    case COLIBRI_ROLE_SYSTEM:
      return ChatRole::kSystem;
    case COLIBRI_ROLE_USER:
      return ChatRole::kUser;
    case COLIBRI_ROLE_ASSISTANT:
      return ChatRole::kAssistant;
    case COLIBRI_ROLE_TOOL:
      return ChatRole::kTool;
    default:
      throw_error(StatusCode::kArgument, "messages[%zu].role is %d; must be 0..3", index, role);
  }
}

// The messages lie struct_size of the first one apart.
std::vector<ChatMessage> read_messages(const colibri_chat_message *messages, size_t n_messages) {
  std::vector<ChatMessage> result;
  result.reserve(n_messages);
  uint32_t stride = 0;
  for (size_t i = 0; i < n_messages; ++i) {
    const char *place = reinterpret_cast<const char *>(messages) + i * size_t{stride};
    const auto *given = reinterpret_cast<const colibri_chat_message *>(place);
    const uint32_t struct_size = check_result(given, "messages");
    if (i == 0) stride = struct_size;
    if (struct_size != stride) {
      throw_error(StatusCode::kArgument, "messages[%zu].struct_size is %u; the first one's is %u",
                  i, struct_size, stride);
    }
    const colibri_chat_message message = read_struct(given, "messages");
    if (message.text == nullptr) {
      throw_error(StatusCode::kArgument, "messages[%zu].text is NULL", i);
    }
    result.push_back({read_role(message.role, i), message.text, {}});
  }
  return result;
}

ChatOptions read_chat_flags(uint32_t flags) {
  constexpr uint32_t kKnown = COLIBRI_CHAT_NO_GENERATION_PROMPT | COLIBRI_CHAT_THINKING;
  if ((flags & ~kKnown) != 0) {
    throw_error(StatusCode::kArgument, "flags is 0x%x; this version knows 0x%x", flags, kKnown);
  }
  ChatOptions options;
  options.adds_generation_prompt = (flags & COLIBRI_CHAT_NO_GENERATION_PROMPT) == 0;
  options.has_thinking = (flags & COLIBRI_CHAT_THINKING) != 0;
  return options;
}

}  // namespace
}  // namespace colibri

colibri_status colibri_tokenizer_open(const char *path, colibri_tokenizer **tokenizer,
                                      colibri_error *error) {
  if (tokenizer != nullptr) *tokenizer = nullptr;
  return colibri::guard_computing(error, [&] {
    colibri::require_pointer(path, "path");
    colibri::require_pointer(tokenizer, "tokenizer");
    *tokenizer = std::make_unique<colibri_tokenizer>(colibri::Tokenizer::open(path)).release();
  });
}

colibri_status colibri_tokenizer_close(colibri_tokenizer *tokenizer, colibri_error *error) {
  return colibri::guard(error, [&] {
    if (tokenizer == nullptr) return;
    colibri::Close<colibri_tokenizer> use(tokenizer, "tokenizer");
    if (use->belongs_to_model) {
      colibri::throw_error(colibri::StatusCode::kBusy,
                           "the tokenizer belongs to a model; it ends with colibri_model_close()");
    }
    const uint32_t n_decoders = use->n_decoders;
    if (n_decoders != 0) {
      colibri::throw_error(colibri::StatusCode::kBusy,
                           "%u stream decoders of the tokenizer still exist; destroy them first",
                           n_decoders);
    }
    use.take().reset();
  });
}

const colibri_tokenizer *colibri_model_tokenizer(const colibri_model *model) {
  if (!colibri::Handle::has_type(model, colibri_model::kType)) return nullptr;
  return model->tokenizer.get();
}

uint32_t colibri_tokenizer_size(const colibri_tokenizer *tokenizer) {
  if (!colibri::Handle::has_type(tokenizer, colibri_tokenizer::kType)) return 0;
  return tokenizer->tokenizer->size();
}

colibri_status colibri_tokenizer_encode(const colibri_tokenizer *tokenizer, const char *text,
                                        size_t text_bytes, int32_t control, int32_t *ids,
                                        size_t capacity, size_t *n_ids, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_tokenizer> use(tokenizer, "tokenizer");
    colibri::require_array(text, text_bytes, colibri::kMaxTextBytes, "text");
    const colibri::ControlTokens mode = colibri::read_control(control);
    const colibri::OutBuffer out(ids, capacity, n_ids, "ids");
    std::vector<int32_t> found;
    use->tokenizer->encode(std::string_view(text, text_bytes), mode, &found);
    return out.put(std::span<const int32_t>(found));
  });
}

colibri_status colibri_tokenizer_decode(const colibri_tokenizer *tokenizer, const int32_t *ids,
                                        size_t n_ids, int32_t skip_special, char *text,
                                        size_t capacity, size_t *text_bytes, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_tokenizer> use(tokenizer, "tokenizer");
    colibri::require_array(ids, n_ids, colibri::kMaxIds, "ids");
    const bool skips = colibri::read_skip_special(skip_special);
    const colibri::OutBuffer out(text, capacity, text_bytes, "text");
    return out.put_text(use->tokenizer->decode(ids, n_ids, skips));
  });
}

colibri_status colibri_tokenizer_find(const colibri_tokenizer *tokenizer, const char *token,
                                      int32_t *id, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_tokenizer> use(tokenizer, "tokenizer");
    colibri::require_pointer(token, "token");
    colibri::require_pointer(id, "id");
    const std::optional<int32_t> found = use->tokenizer->find_token(token);
    if (!found.has_value()) {
      colibri::throw_error(colibri::StatusCode::kNotFound, "the tokenizer has no token '%.100s'",
                           token);
    }
    *id = *found;
  });
}

colibri_status colibri_tokenizer_prefix(const colibri_tokenizer *tokenizer, int32_t *ids,
                                        size_t capacity, size_t *n_ids, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_tokenizer> use(tokenizer, "tokenizer");
    const colibri::OutBuffer out(ids, capacity, n_ids, "ids");
    const std::vector<int32_t> prefix = colibri::find_prefix(*use->tokenizer);
    return out.put(std::span<const int32_t>(prefix));
  });
}

colibri_status colibri_chat_layout(const colibri_tokenizer *tokenizer, const char **name,
                                   colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_tokenizer> use(tokenizer, "tokenizer");
    colibri::require_pointer(name, "name");
    *name = colibri::recognise_chat_layout(*use->tokenizer).name;
  });
}

colibri_status colibri_chat_encode(const colibri_tokenizer *tokenizer,
                                   const colibri_chat_message *messages, size_t n_messages,
                                   uint32_t flags, int32_t *ids, size_t capacity, size_t *n_ids,
                                   colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_tokenizer> use(tokenizer, "tokenizer");
    colibri::require_array(messages, n_messages, colibri::kMaxMessages, "messages");
    const colibri::ChatOptions options = colibri::read_chat_flags(flags);
    const colibri::OutBuffer out(ids, capacity, n_ids, "ids");
    std::vector<int32_t> found;
    colibri::format_chat(*use->tokenizer, colibri::recognise_chat_layout(*use->tokenizer),
                         colibri::read_messages(messages, n_messages), options, &found);
    return out.put(std::span<const int32_t>(found));
  });
}

colibri_status colibri_stream_decoder_create(const colibri_tokenizer *tokenizer,
                                             int32_t skip_special, colibri_stream_decoder **decoder,
                                             colibri_error *error) {
  if (decoder != nullptr) *decoder = nullptr;
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_tokenizer> use(tokenizer, "tokenizer");
    const bool skips = colibri::read_skip_special(skip_special);
    colibri::require_pointer(decoder, "decoder");
    *decoder = std::make_unique<colibri_stream_decoder>(*use, skips).release();
  });
}

colibri_status colibri_stream_decoder_push(colibri_stream_decoder *decoder, int32_t id,
                                           const char **text, size_t *text_bytes,
                                           colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Write<colibri_stream_decoder> use(decoder, "decoder");
    colibri::require_pointer(text, "text");
    colibri::require_pointer(text_bytes, "text_bytes");
    use->text.clear();
    use->decoder.push(id, &use->text);
    *text = use->text.data();
    *text_bytes = use->text.size();
  });
}

colibri_status colibri_stream_decoder_flush(colibri_stream_decoder *decoder, const char **text,
                                            size_t *text_bytes, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Write<colibri_stream_decoder> use(decoder, "decoder");
    colibri::require_pointer(text, "text");
    colibri::require_pointer(text_bytes, "text_bytes");
    use->text.clear();
    use->decoder.flush(&use->text);
    *text = use->text.data();
    *text_bytes = use->text.size();
  });
}

colibri_status colibri_stream_decoder_destroy(colibri_stream_decoder *decoder,
                                              colibri_error *error) {
  return colibri::guard(error, [&] {
    if (decoder == nullptr) return;
    colibri::Close<colibri_stream_decoder> use(decoder, "decoder");
    use.take().reset();
  });
}
