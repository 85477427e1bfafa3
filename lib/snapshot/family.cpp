// SPDX-License-Identifier: Apache-2.0
//
// The rows of families_latent.cpp and families_grouped.cpp as one table.

#include "lib/snapshot/family.h"

namespace colibri {

std::vector<const Family *> families() {
  std::vector<const Family *> all;
  for (const std::span<const Family> rows : {latent_families(), grouped_families()}) {
    for (const Family &family : rows) all.push_back(&family);
  }
  return all;
}

const Family *find_family(std::string_view model_type) noexcept {
  for (const std::span<const Family> rows : {latent_families(), grouped_families()}) {
    for (const Family &family : rows) {
      if (family.model_type == model_type) return &family;
    }
  }
  return nullptr;
}

std::string supported_model_types() {
  std::string text;
  for (const Family *family : families()) {
    text += (text.empty() ? "" : ", ") + std::string(family->model_type);
  }
  return text;
}

}  // namespace colibri
