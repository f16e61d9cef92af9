// Lookup in the table of families.
#include "formats/families/family.h"

namespace rl {
namespace {

constexpr Family kFamilies[] = {
#define X(name) Family::k##name,
    RL_MODEL_FAMILIES(X)
#undef X
};

}  // namespace

const FamilyInfo& family_info(Family family) {
  switch (family) {
#define X(name)         \
  case Family::k##name: \
    return k##name##Family;
    RL_MODEL_FAMILIES(X)
#undef X
  }
  throw Error(Code::kInternal, str("no model family ", static_cast<int>(family)));
}

const Family* find_family(std::string_view model_type) {
  for (const Family& f : kFamilies) {
    if (model_type == family_info(f).model_type) return &f;
  }
  return nullptr;
}

std::string known_model_types() {
  std::string out;
  for (const Family f : kFamilies) out += str(out.empty() ? "" : ", ", family_info(f).model_type);
  return out;
}

const char* family_name(Family family) { return family_info(family).name; }

}  // namespace rl
