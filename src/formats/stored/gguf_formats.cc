// Numbers missing below were removed from the format by its authors or never assigned.
#include "formats/stored/gguf_formats.h"

#include "core/error.h"

namespace rl {
namespace {

constexpr GgufFormat kFormats[] = {
    {0, StoredType::kF32},      {1, StoredType::kF16},      {2, StoredType::kQ4_0},
    {3, StoredType::kQ4_1},     {6, StoredType::kQ5_0},     {7, StoredType::kQ5_1},
    {8, StoredType::kQ8_0},     {10, StoredType::kQ2K},     {11, StoredType::kQ3K},
    {12, StoredType::kQ4K},     {13, StoredType::kQ5K},     {14, StoredType::kQ6K},
    {30, StoredType::kBf16},    {9, {"Q8_1", 32, 36}},      {15, {"Q8_K", 256, 292}},
    {16, {"IQ2_XXS", 256, 66}}, {17, {"IQ2_XS", 256, 74}},  {18, {"IQ3_XXS", 256, 98}},
    {19, {"IQ1_S", 256, 50}},   {20, {"IQ4_NL", 32, 18}},   {21, {"IQ3_S", 256, 110}},
    {22, {"IQ2_S", 256, 82}},   {23, {"IQ4_XS", 256, 136}}, {24, {"I8", 1, 1}},
    {25, {"I16", 1, 2}},        {26, {"I32", 1, 4}},        {27, {"I64", 1, 8}},
    {28, {"F64", 1, 8}},        {29, {"IQ1_M", 256, 56}},   {34, {"TQ1_0", 256, 54}},
    {35, {"TQ2_0", 256, 66}},   {39, {"MXFP4", 32, 17}},    {40, {"NVFP4", 64, 36}},
    {41, {"Q1_0", 128, 18}},
};

}  // namespace

const GgufFormat* find_gguf_format(uint32_t number) {
  for (const GgufFormat& f : kFormats) {
    if (f.number == number) return &f;
  }
  return nullptr;
}

std::string readable_gguf_formats() {
  std::string out;
  for (const BlockLayout& l : kBlockLayouts) out += str(out.empty() ? "" : ", ", l.name);
  return out;
}

}  // namespace rl
