// The style sheet of the report. It contains no character that XML would read as markup.
#pragma once

namespace rl {

extern const char* const kReportStyle;

}  // namespace rl
