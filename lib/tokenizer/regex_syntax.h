// SPDX-License-Identifier: Apache-2.0
//
// Patterns of tokenizer files are written for Oniguruma (Ruby syntax). This translates the part of
// it that split patterns use into PCRE2 syntax with the same meaning, and refuses everything else
// by name, so that no pattern is silently read in another sense.

#pragma once

#include <string>
#include <string_view>

namespace colibri {

// Throws Error(kUnsupported) with the construct and its position; `name` (file and section) leads
// the message.
std::string translate_regex(std::string_view pattern, const std::string &name);

}  // namespace colibri
