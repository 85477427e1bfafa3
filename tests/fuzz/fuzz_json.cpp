// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a JSON file: a document that can be walked and written back, or Error(kFormat). What
// was written must read as the same text again. A sound document is also offered as a config.

#include <cstdlib>
#include <string_view>

#include "lib/base/status.h"
#include "lib/snapshot/json.h"
#include "lib/snapshot/model_config.h"
#include "tests/fuzz/fuzz_driver.h"

namespace {

using namespace colibri;

void require(bool condition) {
  if (!condition) std::abort();
}

std::string write(JsonValue value) {
  JsonWriter writer;
  writer.value(value);
  return writer.text();
}

void look_up_every_key(JsonValue value) {
  for (size_t i = 0; i < value.size(); ++i) {
    if (value.is_object()) require(value.has(value.key_at(i)));
    look_up_every_key(value.at(i));
  }
}

void offer_as_config(JsonValue root) {
  try {
    parse_model_config(root, "config.json");
  } catch (const Error &error) {
    require(error.status().code() == StatusCode::kFormat ||
            error.status().code() == StatusCode::kUnsupported);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  try {
    const JsonDocument document = JsonDocument::parse(text, "fuzz.json");
    look_up_every_key(document.root());
    const std::string written = write(document.root());
    require(write(JsonDocument::parse(written, "written").root()) == written);
    offer_as_config(document.root());
  } catch (const Error &error) {
    require(error.status().code() == StatusCode::kFormat);
  }
  return 0;
}

namespace colibri::test {

std::vector<std::string> fuzz_seeds() {
  std::string many_keys = "{";
  for (int i = 0; i < 40; ++i)
    many_keys += "\"key" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  return {
      R"({"n":null,"t":true,"i":-7,"u":18446744073709551615,"d":0.5e-3,"s":"x\u00e9\ud83d\ude00\n","a":[1,[2,{}]]})",
      R"({"model_type":"glm_moe_dsa","vocab_size":32,"hidden_size":16,"num_hidden_layers":2,)"
      R"("max_position_embeddings":256,"rms_norm_eps":1e-5,"num_attention_heads":2,"q_lora_rank":12,)"
      R"("kv_lora_rank":8,"qk_nope_head_dim":6,"qk_rope_head_dim":4,"v_head_dim":5,)"
      R"("rope_parameters":{"rope_theta":8000000,"rope_type":"default"},"index_n_heads":2,"index_head_dim":8,)"
      R"("index_topk":16,"indexer_types":["full","shared"],"index_topk_pattern":"FS","first_k_dense_replace":1,)"
      R"("intermediate_size":24,"moe_intermediate_size":6,"n_routed_experts":4,"num_experts_per_tok":2,)"
      R"("n_shared_experts":1,"routed_scaling_factor":2.5,"n_group":2,"topk_group":1,"eos_token_id":[30,7]})",
      R"({"model_type":"gpt_oss","vocab_size":32,"hidden_size":16,"num_hidden_layers":2,)"
      R"("max_position_embeddings":256,"rms_norm_eps":1e-5,"num_attention_heads":4,"num_key_value_heads":2,)"
      R"("head_dim":8,"attention_bias":true,"intermediate_size":8,"num_local_experts":4,"num_experts_per_tok":2,)"
      R"("layer_types":["sliding_attention","full_attention"],"sliding_window":4,"swiglu_limit":7.0,)"
      R"("rope_scaling":{"rope_type":"yarn","factor":8,"original_max_position_embeddings":32,"beta_fast":32.0,)"
      R"("beta_slow":1.0,"truncate":false,"mscale":1.0,"mscale_all_dim":0.5},"rope_theta":150000})",
      R"({"model_type":"qwen2_moe","vocab_size":32,"hidden_size":16,"num_hidden_layers":3,)"
      R"("max_position_embeddings":256,"rms_norm_eps":1e-5,"num_attention_heads":4,"num_key_value_heads":2,)"
      R"("intermediate_size":8,"moe_intermediate_size":4,"shared_expert_intermediate_size":6,"num_experts":4,)"
      R"("num_experts_per_tok":2,"decoder_sparse_step":2,"mlp_only_layers":[1],"partial_rotary_factor":1.0,)"
      R"("sliding_window":8,"use_sliding_window":true,"max_window_layers":2,"norm_topk_prob":true})",
      many_keys + "\"last\":1}",
      many_keys + "\"key7\":1}",
      std::string(64, '[') + std::string(64, ']'),
      std::string(1100, '['),
      std::string("{}\0x", 4),
      "{\"a\":1,\"a\":2}",
      "{a\":1}",
      "\"\xED\xA0\x80\"",
      "[1e999,1e-999,-0.0,01]",
      "\xEF\xBB\xBF[]",
      "",
  };
}

}  // namespace colibri::test
