#include "pipeline/config/schedule_options.h"

#include "core/error.h"
#include "core/violations.h"
#include "options/options_json.h"

namespace rl {

bool schedules_depend_on(std::string_view key) {
  if (key == "pipeline.record_path" || key == "pipeline.replay_path") return false;
  constexpr std::string_view kBegins[] = {"pipeline.", "engine.", "eval."};
  for (const std::string_view begin : kBegins) {
    if (key.starts_with(begin)) return true;
  }
  return require_option(key).affects_determinism;
}

void require_recorded(const OptionSet& now, const std::string& recorded, const std::string& path) {
  const OptionSet then = options_from_json(recorded, {});
  Violations violations;
  for (const std::string& key : then.diff(now)) {
    if (!schedules_depend_on(key)) continue;
    const std::string was = then.get_text(key);
    violations.add(Error(Code::kIncompatible, str(key, " is ", now.get_text(key), ", but ", was,
                                                  " in the run that ", path, " has"))
                       .with_key(key)
                       .with_expected(was)
                       .with_location(path));
  }
  violations.throw_any();
}

std::optional<OptionSet> with_recorded(const OptionSet& now, const std::string& recorded) {
  const OptionSet then = options_from_json(recorded, {});
  std::optional<OptionSet> changed;
  for (const std::string& key : now.diff(then)) {
    if (!schedules_depend_on(key)) continue;
    if (require_option(key).when == OptionWhen::kCreate) {
      throw Error(Code::kUnsupported,
                  str("the recorded run was resumed with ", key, " = ", then.get_text(key),
                      ", which a run has from its start: ", "replay it from its checkpoint"))
          .with_key(key);
    }
    if (!changed) changed = now;
    changed->set_value(key, then.get_value(key));
  }
  return changed;
}

}  // namespace rl
