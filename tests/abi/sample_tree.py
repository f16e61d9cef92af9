"""A small tree with an interface, for released_self_test.py."""
import baseline
import freeze_abi
import released
import schemas
import versions

OPTION = """- name: a.rate
  type: f64
  default: 0.5
  min: 0
  max: 1
  unit: steps
  when: between_steps
- name: a.mode
  type: enum
  default: one
  when: create
  choices:
    - name: one
    - name: two
"""
METRICS = """placeholders:
  stat: {values: [mean, max]}
metrics:
  - {name: "loss/{stat}", unit: s, in: {step: []}}
  - {name: count, unit: tokens, in: {step: [], eval: []}}
"""
SCHEMA = "table Document { one: int (id: 0); two: string (id: 1); }\nroot_type Document;\n"
HEADER = """#define RL_API
#define RL_ABI_MAJOR {major}
#define RL_ABI_MINOR {minor}
typedef int rl_status;
typedef void (*rl_log_fn)(void* user_data, int level);
enum {{ RL_OK = 0, RL_LATE = {late} }};
typedef struct rl_info {{
  unsigned long struct_size;
{fields}}} rl_info;
"""


class Sample:
    """A small tree of a version. nodes: what symbols.txt says in place of what is right."""

    def __init__(self, root, version, soversion):
        self.root, self.version, self.soversion = root, version, soversion
        self.functions = {"rl_abi_version": "unsigned", "rl_get": "rl_status"}
        self.fields, self.late = ["long first", "int second"], 50
        self.options, self.metrics, self.changes = OPTION, METRICS, ""
        self.nodes, self.map, self.schema = {}, None, SCHEMA

    def put(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def write(self):
        major, minor = self.version
        shown, number = versions.shown(self.version), str(self.soversion)
        text = HEADER.format(major=major, minor=minor, late=self.late,
                             fields="".join(f"  {field};\n" for field in self.fields))
        text += "".join(f"/* F. Thread: any. */\nRL_API {result} {name}(const rl_info* info);\n"
                        for name, result in self.functions.items())
        self.put("include/rl.h", text)
        self.put("abi/host.c", "int main(void) { return 0; }\n")
        self.put("abi/options.yml", self.options)
        self.put("abi/metrics.yml", self.metrics)
        self.put("abi/schemas/document.fbs", self.schema)
        self.put("abi/CHANGES.md", f"# Changes\n\n## {shown} (now)\n\n{self.changes}\n\n## 0.0\n\n"
                                   "`rl_added` `rl_get` `a.rate` `count` `rl_info`\n")
        self.put("CMakeLists.txt", f"project(rl VERSION {shown}.3 LANGUAGES C)\n"
                                   f"set(RL_SOVERSION {number})\n")
        for name in ("rl-sys", "rl"):
            self.put(f"bindings/rust/{name}/Cargo.toml", f'version = "{shown}.0"\n')
        sign = "!=" if major == 0 else "<"
        self.put("bindings/go/rl/rl.go",
                 f"#if RL_ABI_MAJOR != {major} || RL_ABI_MINOR {sign} {minor}\n")
        self.put("bindings/python/rl/_raw.py", f"ABI_MAJOR, ABI_MINOR = {major}, {minor}\n"
                                               f'SONAME = "librl.so.{number}"\n')
        self.put("examples/c/CMakeLists.txt", f"find_package(rl {shown} REQUIRED COMPONENTS)\n")
        self.put("bindings/python/pyproject.toml", f'version = "{shown}.0"\n')
        self.put("packaging/debian/changelog", f"rl ({shown}.0) bookworm\n")
        self.put("packaging/debian/control", f"Package: librl{number}\n")
        self.put("packaging/debian/rules", f"RUNTIME = librl{number}\n")
        self.put(f"packaging/debian/librl{number}.symbols",
                 f"librl.so.{number} librl{number} #MINVER#\n (symver)RL_{shown} {shown}.0\n")
        self.put("docs/embedding.md", f"Open `librl.so.{number}`.\n")
        nodes = {**versions.nodes(self.root, sorted(self.functions)), **self.nodes}
        self.put("abi/symbols.txt", "".join(f"{n}@@{node}\n" for n, node in nodes.items()))
        self.put("abi/librl.map", self.map or versions.script(nodes))

    def freeze(self):
        """As freeze_abi.py does it, without libabigail and flatc."""
        self.write()
        folder = self.root / "abi/released" / versions.shown(self.version)
        folder.mkdir(parents=True)
        describe, compile_all = baseline.describe, schemas.compile_all
        baseline.describe = lambda out, *_: out.write_text("described\n")
        schemas.compile_all = lambda flatc, paths, out: (out / "document.bfbs").write_text("bfbs\n")
        try:
            freeze_abi.write(self.root, folder)
        finally:
            baseline.describe, schemas.compile_all = describe, compile_all
        (folder / "SHA256SUMS").write_text(released.sums(folder))
