// Directives are implemented here, because strftime() depends on the process's locale.
#include "jinja/date.h"

#include <algorithm>
#include <array>

#include "core/encoding/unicode.h"
#include "core/error.h"

namespace rl::jinja {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

struct Moment {
  int year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0;

  bool is_leap() const { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }
  int days_in(int m) const {
    return m == 2 ? 28 + is_leap() : m == 4 || m == 6 || m == 9 || m == 11 ? 30 : 31;
  }
  int day_of_year() const {
    int n = day;
    for (int m = 1; m < month; ++m) n += days_in(m);
    return n;
  }
  // 0 is Sunday.
  int weekday() const {
    const int before = year - 1;
    return (before * 365 + before / 4 - before / 100 + before / 400 + day_of_year()) % 7;
  }
};

Moment parse(std::string_view now) {
  Moment m;
  const auto fail = [&]() {
    throw Error(Code::kInvalidArgument,
                str("strftime_now is ", quote_text(now), ", which is not a date"))
        .with_expected("YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS");
  };
  static constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (now.size() != 10 && now.size() != kForm.size()) fail();
  int* const fields[] = {&m.year, &m.month, &m.day, &m.hour, &m.minute, &m.second};
  m = {0, 0, 0, 0, 0, 0};
  size_t field = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (kForm[i] != '0') {
      if (now[i] != kForm[i]) fail();
      ++field;
    } else if (now[i] < '0' || now[i] > '9') {
      fail();
    } else {
      *fields[field] = *fields[field] * 10 + (now[i] - '0');
    }
  }
  if (m.year < 1 || m.month < 1 || m.month > 12 || m.day < 1 || m.day > m.days_in(m.month) ||
      m.hour > 23 || m.minute > 59 || m.second > 59) {
    fail();
  }
  return m;
}

std::string padded(int value, size_t width) {
  std::string digits = str(value);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

std::string directive(const Moment& m, char letter, bool unpadded) {
  const auto number = [&](int value, size_t width) { return padded(value, unpadded ? 1 : width); };
  const std::string_view day = kDays[static_cast<size_t>(m.weekday())];
  const std::string_view month = kMonths[static_cast<size_t>(m.month - 1)];
  switch (letter) {
    case 'Y':
      return padded(m.year, 4);
    case 'y':
      return number(m.year % 100, 2);
    case 'm':
      return number(m.month, 2);
    case 'd':
      return number(m.day, 2);
    case 'j':
      return number(m.day_of_year(), 3);
    case 'H':
      return number(m.hour, 2);
    case 'I':
      return number(m.hour % 12 == 0 ? 12 : m.hour % 12, 2);
    case 'M':
      return number(m.minute, 2);
    case 'S':
      return number(m.second, 2);
    case 'p':
      return m.hour < 12 ? "AM" : "PM";
    case 'A':
      return std::string(day);
    case 'a':
      return std::string(day.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'b':
      return std::string(month.substr(0, 3));
    case '%':
      return "%";
    default:
      break;
  }
  throw Error(Code::kUnsupported, str("the directive ", quote_text(std::string{'%', letter}),
                                      " of strftime_now is not supported"));
}

}  // namespace

std::string format_date(std::string_view now, std::string_view format) {
  const Moment moment = parse(now);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const bool unpadded = i + 1 < format.size() && format[i + 1] == '-';
    i += unpadded ? 2 : 1;
    out += directive(moment, i < format.size() ? format[i] : ' ', unpadded);
  }
  return out;
}

}  // namespace rl::jinja
