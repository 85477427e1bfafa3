// SPDX-License-Identifier: Apache-2.0
//
// PCRE2 behind two small classes. Texts are known to be valid UTF-8, so PCRE2 does not check them
// again. Where there is a just-in-time compiler it is used; a match that needs more than the small
// stack it starts with gets a larger one, and one that needs more than that is an error.

#include "lib/tokenizer/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "lib/base/status.h"
#include "lib/tokenizer/regex_syntax.h"

namespace colibri {
namespace {

constexpr size_t kMaxPatternBytes = 1u << 16;
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 64u << 10;
constexpr size_t kSmallStackBytes = 32u << 10;
constexpr size_t kLargeStackBytes = 8u << 20;
constexpr uint32_t kOptions =
    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_UTF_CHECK;

template <auto free_function>
struct Free {
  template <typename T>
  void operator()(T *object) const noexcept {
    free_function(object);
  }
};

using CompileContext = std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>>;

template <typename T>
T *check_allocated(T *object) {
  if (object == nullptr) throw_error(StatusCode::kMemory, "no memory for a split pattern");
  return object;
}

}  // namespace

struct SplitRegex::Code {
  std::unique_ptr<pcre2_code, Free<pcre2_code_free>> code;
  bool is_compiled_to_machine_code;
  std::string name;
};

struct RegexMatcher::State {
  const SplitRegex::Code *regex;
  std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> data;
  std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context;
  std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>> stack;

  int match(std::string_view text, size_t from) {
    const auto *subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    if (regex->is_compiled_to_machine_code) {
      return pcre2_jit_match(regex->code.get(), subject, text.size(), from, 0, data.get(),
                             context.get());
    }
    return pcre2_match(regex->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                       data.get(), context.get());
  }
};

namespace {

pcre2_code *compile_code(std::string_view pattern, uint32_t options, const std::string &name) {
  if (pattern.size() > kMaxPatternBytes) {
    throw_error(StatusCode::kUnsupported, "%s: a pattern of %zu bytes; at most %zu are supported",
                name.c_str(), pattern.size(), kMaxPatternBytes);
  }
  const CompileContext context(check_allocated(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code *compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                       options, &code, &offset, context.get());
  if (compiled != nullptr) return compiled;
  if (code == PCRE2_ERROR_HEAP_FAILED) {
    throw_error(StatusCode::kMemory, "%s: no memory to compile a pattern", name.c_str());
  }
  PCRE2_UCHAR text[120] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  throw_error(StatusCode::kUnsupported, "%s: the pattern does not compile: %s (byte %zu)",
              name.c_str(), reinterpret_cast<const char *>(text), static_cast<size_t>(offset));
}

}  // namespace

SplitRegex SplitRegex::compile(std::string_view pattern, const std::string &name) {
  const std::string translated = translate_regex(pattern, name);
  auto code = std::make_unique<Code>();
  code->name = name;
  code->code.reset(compile_code(translated, kOptions, name));
  code->is_compiled_to_machine_code = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return SplitRegex(std::move(code));
}

SplitRegex SplitRegex::compile_literal(std::string_view text, const std::string &name) {
  auto code = std::make_unique<Code>();
  code->name = name;
  code->code.reset(compile_code(text, PCRE2_UTF | PCRE2_LITERAL | PCRE2_NO_UTF_CHECK, name));
  code->is_compiled_to_machine_code = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return SplitRegex(std::move(code));
}

SplitRegex::SplitRegex(std::unique_ptr<Code> code) noexcept : code_(std::move(code)) {}
SplitRegex::SplitRegex(SplitRegex &&) noexcept = default;
SplitRegex &SplitRegex::operator=(SplitRegex &&) noexcept = default;
SplitRegex::~SplitRegex() = default;

RegexMatcher::RegexMatcher(const SplitRegex &regex) : state_(std::make_unique<State>()) {
  state_->regex = regex.code_.get();
  state_->data.reset(check_allocated(pcre2_match_data_create(1, nullptr)));
  state_->context.reset(check_allocated(pcre2_match_context_create(nullptr)));
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKib);
}

RegexMatcher::RegexMatcher(RegexMatcher &&) noexcept = default;
RegexMatcher::~RegexMatcher() = default;

bool RegexMatcher::find(std::string_view text, size_t from, MatchRange *match) {
  int result = state_->match(text, from);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && state_->stack == nullptr) {
    state_->stack.reset(
        check_allocated(pcre2_jit_stack_create(kSmallStackBytes, kLargeStackBytes, nullptr)));
    pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
    result = state_->match(text, from);
  }
  if (result >= 0) {
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(state_->data.get());
    *match = {bounds[0], bounds[1]};
    return true;
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  PCRE2_UCHAR reason[120] = {};
  pcre2_get_error_message(result, reason, sizeof(reason));
  throw_error(
      StatusCode::kFormat,
      "%s: the pattern cannot be applied to a text of %zu bytes: %s; the file is not usable",
      state_->regex->name.c_str(), text.size(), reinterpret_cast<const char *>(reason));
}

}  // namespace colibri
