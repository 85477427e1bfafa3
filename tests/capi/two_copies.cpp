// SPDX-License-Identifier: Apache-2.0
//
// A program that loads the library and a copy of it under another name into one process and uses
// both in turn. Arguments: LIBRARY MODEL. Exit status 0: they are two libraries, give the same
// tokens, and unloading one leaves the other alone.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "colibri/colibri.h"

namespace {

class Library {
 public:
  explicit Library(const std::string &path)
      : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    if (handle_ != nullptr) return;
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  ~Library() { dlclose(handle_); }
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  template <typename Function>
  Function *find(const char *name) const {
    return reinterpret_cast<Function *>(dlsym(handle_, name));
  }

 private:
  void *handle_;
};

#define COLIBRI_FIND(function) library.find<decltype(function)>(#function)

struct Engine {
  colibri_model *model = nullptr;
  colibri_scheduler *scheduler = nullptr;
};

Engine open(const Library &library, const char *path) {
  Engine engine;
  colibri_model_options options;
  COLIBRI_FIND(colibri_model_options_init)(&options, sizeof(options));
  options.n_threads = 2;
  options.context_tokens = 64;
  COLIBRI_FIND(colibri_model_open)(path, &options, &engine.model, nullptr);
  COLIBRI_FIND(colibri_scheduler_create)(engine.model, nullptr, &engine.scheduler, nullptr);
  const int32_t prompt[] = {11, 12, 13};
  colibri_request_options request;
  COLIBRI_FIND(colibri_request_options_init)(&request, sizeof(request));
  request.prompt_ids = prompt;
  request.n_prompt_ids = 3;
  request.max_tokens = 12;
  request.ignore_model_stops = 1;
  colibri_request_id id = 0;
  COLIBRI_FIND(colibri_scheduler_submit)(engine.scheduler, &request, &id, nullptr, nullptr);
  return engine;
}

void step(const Library &library, const Engine &engine, std::vector<int32_t> &tokens) {
  COLIBRI_FIND(colibri_scheduler_step)(engine.scheduler, COLIBRI_STEP_NOWAIT, nullptr, nullptr);
  colibri_event events[8];
  size_t n_events = 0;
  COLIBRI_FIND(colibri_scheduler_next_events)
  (engine.scheduler, events, sizeof(events[0]), 8, &n_events, nullptr);
  for (size_t i = 0; i < n_events; ++i) {
    if (events[i].kind == COLIBRI_EVENT_TOKEN) tokens.push_back(events[i].token);
  }
}

bool close(const Library &library, const Engine &engine) {
  return COLIBRI_FIND(colibri_scheduler_destroy)(engine.scheduler, nullptr) == COLIBRI_OK &&
         COLIBRI_FIND(colibri_model_close)(engine.model, nullptr) == COLIBRI_OK;
}

int compare(const std::string &first_path, const std::string &second_path, const char *model) {
  const Library first(first_path);
  std::vector<int32_t> first_tokens;
  std::vector<int32_t> second_tokens;
  const Engine engine = open(first, model);
  {
    const Library second(second_path);
    if (first.find<void>("colibri_model_open") == second.find<void>("colibri_model_open")) return 1;
    const Engine other = open(second, model);
    for (int i = 0; i < 7; ++i) {
      step(first, engine, first_tokens);
      step(second, other, second_tokens);
    }
    for (int i = 0; i < 7; ++i) step(second, other, second_tokens);
    if (!close(second, other)) return 1;
  }
  for (int i = 0; i < 7; ++i) step(first, engine, first_tokens);
  if (!close(first, engine)) return 1;
  std::printf("%zu and %zu tokens\n", first_tokens.size(), second_tokens.size());
  return first_tokens.size() == 12 && first_tokens == second_tokens ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const std::filesystem::path copy =
      std::filesystem::temp_directory_path() / ("libother" + std::to_string(getpid()) + ".so");
  std::filesystem::copy_file(argv[1], copy);
  const int result = compare(argv[1], copy.string(), argv[2]);
  std::filesystem::remove(copy);
  return result;
}
