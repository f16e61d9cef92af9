// A Hugging Face directory as a model: config.json, model.safetensors or the files of
// model.safetensors.index.json, and, if present, generation_config.json, tokenizer.json and chat
// templates (chat_template.jinja and the files of additional_chat_templates, else those inside
// tokenizer_config.json).
#pragma once
#include <memory>
#include <string>

#include "core/fs.h"
#include "formats/weight_source.h"

namespace rl {

// A tied model may still store lm_head.weight: its bytes must then equal the embedding's, else
// Error(kConflict).
std::unique_ptr<WeightSource> open_hf_directory(FileSystem& fs, const std::string& dir);

}  // namespace rl
