"""Each house rule finds what is planted against it, and nothing in a tree without violations."""
import pathlib
import tempfile

from house import format_rule, tree

LONG = "x" * 60 + " " + "y" * 40  # 101 columns
LINES = "  f();\n" * 70


def function(head, lines):
    return head + " {\n" + lines + "}\n"


def struct(name, count):
    return f"struct {name} {{\n" + "".join(f"  int m{i} = 0;\n" for i in range(count)) + "};\n"


# What looks like a violation and is none.
CLEAN = {
    ".clang-format": "BasedOnStyle: Google\nColumnLimit: 100\n",
    "docs/page.md": f"| {LONG} |\n- " + "x" * 110 + "\n",
    "docs/options.md": f"# Options\n\nGenerated from `a` by `b`.\n\n{LONG}\n",
    "tests/fixtures/a.py": LONG,
    "src/core/table.gen.cc": f"// {LONG}\n",
    "src/core/one.h": "#pragma once\n",
    "src/core/one.cc": function("// clang-format off\nvoid longest()", LINES) + """
namespace {
""" + "int a();\n" * 80 + """
}  // namespace

extern "C" {
""" + "int b();\n" * 80 + """
}

constexpr int kTable[] = {
""" + "    1'000,\n" * 80 + """};

const char* const kText = R"(
""" + "{\n" * 80 + """)";

Type::Type(int a) : a_{a}, b_(a) {
  const char brace = f(1'000, '{');  // {
}
""",
    "src/core/large.h": "class Large {\n" + "  void f(int a, int b);\n" * 80 + "};\n",
    "src/pipeline/a.h": struct("RunOptions", 30) + "// clang-format off\n"
    + struct("S", 20).replace("};", """
  struct Inner { int a; };
  static constexpr int kA = 1;
  using B = int;
  S() : m0{1} {}
  int f(int a = 1) const;
  bool operator==(const S& other) const = default;
};"""),
    "src/pipeline/config/read.cc": 'int a = options.get_i64("a.b");\n',
    "src/core/pool.cc": "Executor workers;\n",
    "tests/core/one_test.cc": "",
}
# (rule, files that are planted, problems that the rule has to name)
VIOLATIONS = [
    ("columns", {"scripts/a.sh": f"\n{LONG}\n"}, ["scripts/a.sh:2: 101 columns, at most 100"]),
    ("columns", {"CMakeLists.txt": f"# {LONG}"}, ["CMakeLists.txt:1: 103 columns, at most 100"]),
    ("columns", {"docs/page.md": LONG}, ["docs/page.md:1: 101 columns, at most 100"]),
    ("format", {"src/core/bad.cc": "int a;\nint  b;\n"},
     ["src/core/bad.cc:2: clang-format writes this in another way"]),
    ("functions", {"src/core/bad.cc": function("\nint f(int a) const", LINES + LINES[:7])},
     ["src/core/bad.cc:2: 71 lines, at most 70: int f(int a) const"]),
    ("functions", {"src/core/bad.h": "class A {\n public:\n"
                   + function("  explicit A(int a) : a_{a}", LINES * 2) + "  int a_;\n};\n"},
     ["src/core/bad.h:3: 140 lines, at most 70: public: explicit A(int a) : a_{a}"]),
    ("functions", {"src/core/bad.cc": function("const auto f = [](int a)", LINES * 2)},
     ["src/core/bad.cc:1: 140 lines, at most 70: const auto f = [](int a)"]),
    ("functions", {"src/core/bad.cc": function("namespace a {\nbool operator==(A a, A b)",
                                               "  if (a) {\n  }\n" * 40) + "}\n"},
     ["src/core/bad.cc:2: 80 lines, at most 70: bool operator==(A a, A b)"]),
    ("stems", {"src/ops/one.cc": ""}, ["src one: 2 folders have this stem, at most 0"]),
    ("stems", {"tests/ops/one_test.cc": ""},
     ["tests one_test: 2 folders have this stem, at most 0"]),
    ("folders", {f"src/ops/a{i}.h": "" for i in range(44)}, ["src/ops: 44 files, at most 43"]),
    ("members", {"src/pipeline/b.h": "struct A final : B {\n  int a, b, c{1}, d = f(1, 2);\n"
                 "  std::map<int, int> e;\n" + struct("", 16).split("\n", 1)[1]},
     ["src/pipeline/b.h A: 21 data members, at most 0"]),
    ("options", {"src/model/b.cc": 'int a = options.get_i64("a.b") + o->get_f64(key);\n'},
     ["src/model/b.cc: 2 options read by key, at most 0"]),
    ("compute", {"src/train/batch/b.cc": "std::memcpy(a, b, n);\nExecutor& e;\nof_worker();\n"},
     ["src/train/batch/b.cc: 3 names of executors, workers or memcpy, at most 0"]),
    ("compute", {tree.EXCEPTIONS: "compute src/train/b.cc 1\n",
                 "src/train/b.cc": "memcpy(a, b, n);\nmemcpy(b, a, n);\n"},
     ["src/train/b.cc: 2 names of executors, workers or memcpy, at most 1"]),
    ("compute", {tree.EXCEPTIONS: "compute src/train/b.cc 3\n", "src/train/b.cc": "worker worker"},
     ["src/train/b.cc: 2 names of executors, workers or memcpy, no longer 3: "
      f"lower its row in {tree.EXCEPTIONS}"]),
    ("members", {tree.EXCEPTIONS: "members src/pipeline/gone.h A::B 30\n"},
     ["src/pipeline/gone.h A::B: 0 data members, no longer 30: "
      f"delete its row in {tree.EXCEPTIONS}"]),
]


def problems_of(rule, files):
    """What a rule says of the clean tree with these files planted."""
    with tempfile.TemporaryDirectory() as name:
        for file, text in {**CLEAN, **files}.items():
            path = pathlib.Path(name, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return rule(pathlib.Path(name))


def run(rules):
    """The exit status: 1 when a rule says anything else than it has to."""
    status = 0
    for name, files, wanted in [*((name, {}, []) for name in rules), *VIOLATIONS]:
        try:
            found = problems_of(rules[name], files)
        except format_rule.Skipped as reason:
            print(f"skipped: {reason}")
            continue
        if found != wanted:
            print(f"{name}, with {sorted(files)}: wanted {wanted}, found {found}")
            status = 1
    untried = sorted(rules.keys() - {name for name, _, _ in VIOLATIONS})
    if untried:
        print(f"no violation is planted against {untried}")
    return 1 if untried else status
