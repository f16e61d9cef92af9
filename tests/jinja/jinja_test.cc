// The template language against what Jinja rendered, its errors with their places, and its limits.
#include <gtest/gtest.h>

#include "jinja/jinja_support.h"
#include "support/expect_error.h"
#include "text/text_fixtures.h"

namespace rl {
namespace {

using test::run_template;

std::string run(std::string_view text) { return run_template(text, {}); }

TEST(Jinja, RendersWhatJinjaRenders) {
  const auto cases = test::ordered_fixture("jinja_cases.json");
  ASSERT_GE(cases.at("cases").size(), 300u);
  for (const auto& item : cases.at("cases")) {
    const auto text = item.at(0).get<std::string>();
    SCOPED_TRACE(text);
    try {
      EXPECT_EQ(run_template(text, cases.at("variables")), item.at(1).get<std::string>());
    } catch (const Error& e) {
      ADD_FAILURE() << e.message;
    }
  }
}

TEST(Jinja, RefusesWhatJinjaRefuses) {
  const auto cases = test::ordered_fixture("jinja_cases.json");
  ASSERT_GE(cases.at("errors").size(), 50u);
  for (const auto& item : cases.at("errors")) {
    const auto text = item.get<std::string>();
    SCOPED_TRACE(text);
    try {
      ADD_FAILURE() << run_template(text, cases.at("variables"));
    } catch (const Error& e) {
      EXPECT_NE(e.code, Code::kInternal) << e.message;
      EXPECT_EQ(e.location.rfind("t:", 0), 0u) << e.location;
    }
  }
}

TEST(Jinja, ErrorsNameWhatIsMissingAndItsPlace) {
  struct Case {
    const char* text;
    Code code;
    const char* location;
    const char* part;
  };
  const Case cases[] = {
      {"a\n {{ 'x' | shout }}", Code::kUnsupported, "t:2:11", "filter \"shout\""},
      {"{{ 1 is odder }}", Code::kUnsupported, "t:1:9", "test \"odder\""},
      {"{{ 'x'.encode() }}", Code::kUnsupported, "t:1:14", "method encode"},
      {"{{ [1].append(2) }}", Code::kUnsupported, "t:1:14", "method append"},
      {"{{ {}.update({}) }}", Code::kUnsupported, "t:1:13", "method update"},
      {"{{ 'x'.__class__ }}", Code::kUnsupported, "t:1:8", "\"__class__\""},
      {"{{ {}['__class__'] }}", Code::kUnsupported, "t:1:6", "\"__class__\""},
      {"{{ [] | map(attribute='__class__') | list }}{{ ['x'] | "
       "map(attribute='__init__.__globals__') }}",
       Code::kUnsupported, "t:1:56", "\"__init__\""},
      {"{% import 'x' as y %}", Code::kUnsupported, "t:1:4", "{% import %}"},
      {"{% for x in [] recursive %}{% endfor %}", Code::kUnsupported, "t:1:16", "recursive"},
      {"{{ f(*x) }}", Code::kUnsupported, "t:1:6", "unpacking"},
      {"{{ '%s' % 1 }}", Code::kUnsupported, "t:1:9", "formatting"},
      {"{{ 'stra\xc3\x9f"
       "e' | upper }}",
       Code::kUnsupported, "t:1:15", "U+00DF"},
      {"{{ 'x' | trim(side=1) }}", Code::kUnsupported, "t:1:10", "\"side\""},
      {"\xc3\xa9{{ x.y.z }}", Code::kInvalidArgument, "t:1:7", "\"x\" is undefined"},
      {"{{ {'a': 1}.b.c }}", Code::kInvalidArgument, "t:1:15", "has no member \"b\""},
      {"{{ raise_exception('no ' ~ 'way') }}", Code::kInvalidArgument, "t:1:19", "no way"},
      {"{{ strftime_now('%Y') }}", Code::kInvalidArgument, "t:1:16", "strftime_now"},
      {"{{ 'a' + 1 }}", Code::kWrongType, "t:1:8", "string and integer"},
      {"{{ none + 'a' }}", Code::kWrongType, "t:1:9", "none and string"},
      {"{{ none | length }}", Code::kWrongType, "t:1:11", "none"},
      {"{{ 1 // 0 }}", Code::kOutOfRange, "t:1:6", "zero"},
      {"{{ 9223372036854775807 + 1 }}", Code::kOutOfRange, "t:1:24", "8 bytes"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", Code::kOutOfRange, "t:1:31", "8 bytes"},
      {"{{ 9223372036854775808 }}", Code::kOutOfRange, "t:1:4", "64 bits"},
      {"{% if x %}", Code::kDataLoss, "t:1:11", "{% endif %}"},
      {"{% endfor %}", Code::kUnsupported, "t:1:4", "endfor"},
      {"{{ (1] }}", Code::kDataLoss, "t:1:6", "expected \")\""},
      {"{{ 'x }}", Code::kDataLoss, "t:1:4", "unterminated string"},
      {"{# x", Code::kDataLoss, "t:1:1", "comment"},
      {"{% raw %}x", Code::kDataLoss, "t:1:1", "endraw"},
      {"{{ \"\\ud800\" }}", Code::kDataLoss, "t:1:7", "not a character"},
      {"{% break %}", Code::kDataLoss, "t:1:4", "outside of a loop"},
      {"{% set ns = namespace() %}{% set ns._x = 1 %}", Code::kUnsupported, "t:1:30", "\"_x\""},
      {"{% set d = {} %}{% set d.x = 1 %}", Code::kInvalidArgument, "t:1:20", "not a namespace"},
      {"{{ [namespace()] }}", Code::kUnsupported, "t:1:4", "namespace"},
      {"{% set n = namespace() %}{% set n.n = n %}", Code::kUnsupported, "t:1:29", "namespace"},
      {"{% for x in [1] %}{{ loop.changed(loop) }}{% endfor %}", Code::kUnsupported, "t:1:34",
       "loop"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", Code::kInvalidArgument, "t:1:35", "takes 1"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const Error e = expect_error(c.code, [&] { run(c.text); });
    EXPECT_EQ(e.location, c.location) << e.message;
    EXPECT_TRUE(contains(e.message, c.part));
    EXPECT_EQ(e.message.rfind(e.location, 0), 0u) << e.message;
  }
}

TEST(Jinja, EachLimitIsAnErrorWithItsValue) {
  const auto refused = [](const std::string& text, const JinjaLimits& limits, const char* part) {
    SCOPED_TRACE(text.substr(0, 60));
    const Error e = expect_error(Code::kResourceExhausted, [&] { run_template(text, {}, limits); });
    EXPECT_TRUE(contains(e.message, part));
  };
  refused("12345", {.max_template_bytes = 4}, "5 bytes exceeds the limit of 4");
  refused("{{ 1 }}{{ 2 }}", {.max_nodes = 3}, "more than 3 nodes");
  refused("{{ [[[[1]]]] }}", {.max_parse_depth = 8}, "deeper than 8");
  refused("{% for i in range(100) %}{{ i }}{% endfor %}", {.max_steps = 900},
          "more than 900 steps");
  refused("{{ [[[1]]] }}", {.max_value_depth = 2}, "2 levels of nested data");
  refused("{{ 'x' * 101 }}", {.max_text_bytes = 100}, "100 bytes of text");
  refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", {.max_call_depth = 40}, "40 levels");
  refused("{{ range(100001) }}", {}, "100000");
  // The same with the limits as they are.
  refused(std::string((1 << 20) + 1, 'x'), {}, "1048576");
  refused("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}", {},
          "deeper than 100");
  refused("{{ " + std::string(5000, '-') + "1 }}", {}, "deeper than 100");
  std::string nots, sum = "{{ 1", ifs;
  for (int i = 0; i < 5000; ++i) {
    nots += "not ";
    sum += " + 1";
    ifs += "{% if 1 %}";
  }
  refused("{{ " + nots + "1 }}", {}, "deeper than 100");
  refused(sum + " }}", {}, "250");
  refused(ifs, {}, "deeper than 100");
  refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", {}, "250 levels");
  refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", {},
          "steps");
  refused(
      "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor "
      "%}",
      {}, "16777216 bytes");
  refused(
      "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
      {}, "steps");
  refused("{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}",
          {}, "100 levels");
  const std::string shared =
      "{% set n = namespace(x=[1]) %}{% for i in range(90) %}"
      "{% set n.x = [n.x, n.x] %}{% endfor %}";
  refused(shared + "{{ n.x }}", {}, "16777216 bytes");
  refused(shared + "{{ n.x | tojson }}", {}, "16777216 bytes");
  refused(shared +
              "{% set m = namespace(x=[1]) %}{% for i in range(90) %}{% set m.x = [m.x, m.x] %}"
              "{% endfor %}{{ n.x == m.x }}",
          {}, "steps");
  refused("{% for i in range(99) %}{{ 'x' * 999999 }}{% endfor %}", {}, "16777216 bytes");
}

TEST(Jinja, LineEndsOfEveryKindAreOneNewline) {
  EXPECT_EQ(run("a\r\nb\rc\n\n"), "a\nb\nc\n");
  EXPECT_EQ(run("a\n{% if true %}\r\nb\r\n{% endif %}\r\n"), "a\nb\n");
}

TEST(Jinja, ATemplateThatIsNotUtf8IsRefused) {
  EXPECT_EQ(expect_error(Code::kDataLoss, [] { run("ab\xff"); }).location, "t byte 2");
}

}  // namespace
}  // namespace rl
