// Model families by name. To add one, add a line here and the file families/NAME.cc that defines
// kNAMEFamily; docs/adding_a_model.md has the steps.
#pragma once

// The order gives the values of enum Family; new families go at the end.
#define RL_MODEL_FAMILIES(X) \
  X(Llama)                   \
  X(Qwen2)                   \
  X(Qwen3)                   \
  X(Mistral)                 \
  X(Gemma3)
