// Binds arguments to parameters.
#include "jinja/calls.h"

#include "core/encoding/unicode.h"
#include "jinja/text_methods.h"

namespace rl::jinja {

Bound::Bound(std::string what, const Arguments& arguments, Names names, size_t required)
    : what_(std::move(what)), names_(names), values_(names_.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    throw Error(Code::kInvalidArgument, str(what_, " takes at most ", names_.size(),
                                            " arguments, but got ", arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < names_.size() && name != names_[i]) ++i;
    if (i == names_.size()) {
      throw Error(Code::kUnsupported, str(what_, " has no argument named ", quote_text(name)));
    }
    if (values_[i] != nullptr) fail(i, "is given twice");
    values_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) fail(i, "is missing");
  }
}

void Bound::fail(size_t i, const std::string& what) const {
  throw Error(Code::kInvalidArgument, str(what_, ": argument ", names_[i], " ", what));
}

const Value* Bound::given(size_t i) const {
  return values_[i] == nullptr || values_[i]->is_none() ? nullptr : values_[i];
}

bool Bound::flag(size_t i, bool otherwise) const {
  return values_[i] ? truth(*values_[i]) : otherwise;
}

int64_t Bound::integer(size_t i, int64_t otherwise) const {
  if (values_[i] == nullptr) return otherwise;
  if (!values_[i]->is_integer()) {
    fail(i, str("is a value of type ", type_name(*values_[i]), ", expected an integer"));
  }
  return values_[i]->to_integer();
}

const MarkedText& Bound::text(size_t i) const {
  const MarkedText* text = values_[i]->as_text();
  if (text == nullptr) {
    fail(i, str("is a value of type ", type_name(*values_[i]), ", expected a string"));
  }
  return *text;
}

int64_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const MarkedText* text = value.as_text()) return num_code_points(text->bytes());
  if (const List* list = value.as_list()) return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.as_dict()) return static_cast<int64_t>(dict->entries.size());
  fail_type("cannot take the length of", value);
}

}  // namespace rl::jinja
