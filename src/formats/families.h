// The families of models, by name. A line here, and the file families/NAME.cc that defines
// kNAMEFamily, is a family; docs/adding_a_model.md has the steps.
#pragma once

// Order is the value of enum Family; new ones go to the end.
#define RL_MODEL_FAMILIES(X) \
  X(Llama)                   \
  X(Qwen2)                   \
  X(Qwen3)                   \
  X(Mistral)                 \
  X(Gemma3)
