// SPDX-License-Identifier: Apache-2.0
//
// Names files that people hand over in the belief that they are safetensors, by their first bytes.

#pragma once

#include "lib/base/file.h"

namespace colibri {

// "a GGUF file", "a ZIP archive (or a PyTorch checkpoint)", ...; nullptr if nothing known. Total:
// never throws. A valid safetensors file may begin like one of these, so ask only after its own
// form has failed.
const char *recognise_foreign_format(const Reader &reader) noexcept;

}  // namespace colibri
