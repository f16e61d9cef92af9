#!/usr/bin/env python3
"""Builds the installed examples of one language against a librl that was installed and then moved,
and runs them: each checks its own result, and run_grpo.py looks at what 4_grpo leaves.

usage: consumers.py KIND BUILD_DIRECTORY SOURCE_DIRECTORY OUT_DIRECTORY
                    KIND: make, cmake, static, python, wheel, rust_static or go_static
       consumers.py same OUT_DIRECTORY...
                    runs of 4_grpo in these directories had the same metrics and weights
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

PROGRAMS = ["1_hello", "2_generate", "3_train_step", "4_grpo", "5_tools"]
SKIPPED = 77


class Host:
    def __init__(self, build, source, out):
        self.build, self.source, self.out = (pathlib.Path(p).resolve()
                                             for p in (build, source, out))
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        run("cmake", "--install", self.build, "--prefix", self.out / "installed")
        self.prefix = (self.out / "installed").rename(self.out / "moved")
        self.pkgconfig = next(self.prefix.rglob("rl.pc")).parent
        self.env = {**os.environ, "PKG_CONFIG_PATH": str(self.pkgconfig)}
        self.env.pop("LD_LIBRARY_PATH", None)

    def examples(self, language):
        """A copy of the installed examples, to build in, with the bindings where they look."""
        for folder in ("bindings", "examples"):
            shutil.copytree(next(self.prefix.rglob(folder)), self.out / folder)
        return self.out / "examples" / language

    def needs(self, program, *least):
        reason = "is not installed" if shutil.which(program) is None else ""
        if least and not reason:
            said = run(program, "version")
            if tuple(map(int, re.search(r"(\d+)\.(\d+)", said).groups())) < least:
                reason = f"{least[0]}.{least[1]} or newer is needed, and it says {said.strip()}"
        if reason:
            print(f"skipped: {program} {reason}")
            sys.exit(SKIPPED)


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def make(host):
    host.needs("pkg-config")
    directory = host.examples("c")
    run("make", "-C", directory, "CC=cc -Werror", env=host.env)
    return directory


def cmake(host, *settings):
    run("cmake", "-S", host.examples("c"), "-B", host.out / "build",
        f"-DCMAKE_PREFIX_PATH={host.prefix}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror", *settings,
        env=host.env)
    run("cmake", "--build", host.out / "build", env=host.env)
    return host.out / "build"


def static(host):
    directory = cmake(host, "-DRL_STATIC=ON")
    cpp_host(host)
    return linked_with_archive(directory)


def linked_with_archive(directory):
    for name in PROGRAMS:
        needed = run("readelf", "-d", directory / name)
        if "librl" in needed or "libdnnl" not in needed:
            sys.exit(f"{name} is not linked with librl.a and shared libraries for the rest:\n"
                     f"{needed}")
    return directory


def cpp_host(host):
    """A C++ program, which has symbols that librl has too, with librl.a by pkg-config."""
    host.needs("pkg-config")
    flags = run("pkg-config", "--cflags", "--libs", "--static", "rl", env=host.env).split()
    run("c++", "-std=c++11", "-Wall", "-Wextra", "-Werror",
        host.source / "tests/package/cpp_host.cc", "-o", host.out / "cpp_host",
        *("-l:librl.a" if flag == "-lrl" else flag for flag in flags))
    run(host.out / "cpp_host")
    print("cpp_host: passed")


def rust_static(host):
    host.needs("cargo", 1, 63)
    host.needs("pkg-config")
    host.env.pop("RL_LIB_DIR", None)
    run("cargo", "build", "--offline", "--locked", "--manifest-path",
        host.examples("rust") / "Cargo.toml", "--features", "static", "--target-dir",
        host.out / "target", env=host.env)
    return linked_with_archive(host.out / "target/debug")


def go_static(host):
    """Compiled with the cache of tests/go: much of it is Go's own library."""
    host.needs("go", 1, 19)
    host.needs("pkg-config")
    sys.path.insert(0, str(host.source / "tests/go"))
    sys.dont_write_bytecode = True
    import go
    env = go.environment(str(host.pkgconfig), host.build / "tests/go")
    env.pop("CGO_LDFLAGS")  # which would have programs find librl.so
    run("go", "build", "-tags", "rl_static", "-o", f"{host.out}/bin/", "./cmd/...",
        cwd=host.examples("go"), env=env)
    return linked_with_archive(host.out / "bin")


def python(host):
    host.needs("pkg-config")  # by which the package finds librl
    directory = host.examples("python")
    host.env["PYTHONPATH"] = str(host.out / "bindings/python")
    return {name: directory / f"{name}.py" for name in PROGRAMS}


def wheel(host):
    """The package as a wheel, made and installed without a network, beside the installed librl."""
    host.needs("pkg-config")
    directory, source = host.examples("python"), host.out / "bindings/python"
    pip = [python_with_pip(), "-m", "pip", "--isolated", "--disable-pip-version-check",
           "--no-cache-dir"]
    offline = ["--no-index", "--no-deps"]
    run(*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", host.out, source)
    made, = host.out.glob("*.whl")
    with zipfile.ZipFile(made) as files:
        packed = {name for name in files.namelist() if name.startswith("rl/")}
    wanted = {f"rl/{path.name}" for path in (source / "rl").iterdir() if path.is_file()}
    if packed != wanted or "rl/py.typed" not in packed:
        sys.exit(f"{made.name} and the package differ in {sorted(packed ^ wanted)}")
    run(*pip, "install", *offline, "--target", host.out / "site", made)
    shutil.rmtree(source)
    host.env["PYTHONPATH"] = str(host.out / "site")
    version = run("python3", "-c", "import rl; print(rl.version())", env=host.env).strip()
    if made.name != f"rl-{version}-py3-none-any.whl":
        sys.exit(f"{made.name} is not for every Python, or not of librl {version}")
    return {name: directory / f"{name}.py" for name in PROGRAMS}


def python_with_pip():
    """A Python that can build wheels; without a network it needs what builds them, too."""
    look = ("import sys, importlib.util as u;"
            "sys.exit(not all(map(u.find_spec, ('pip', 'setuptools', 'wheel'))))")
    for candidate in (sys.executable, "/usr/bin/python3"):
        if shutil.which(candidate) and subprocess.run([candidate, "-c", look],
                                                      check=False).returncode == 0:
            return candidate
    print("skipped: there is no python3 with pip, setuptools and wheel")
    sys.exit(SKIPPED)


def run_programs(host, programs):
    """Those that a language has; programs is their directory or a path for each."""
    paths = programs if isinstance(programs, dict) else {name: programs / name for name in PROGRAMS}
    fixtures = host.source / "tests/fixtures"
    tiny = fixtures / "gguf/tiny_llama_half.gguf"
    arguments = {"1_hello": [], "2_generate": [tiny, "2 + 3?"],
                 "3_train_step": [fixtures / "models/llama"], "5_tools": [tiny]}
    for name, path in paths.items():
        if name in arguments:
            run(path, *arguments[name], env=host.env)
        else:
            run(sys.executable, host.source / "tests/examples/run_grpo.py", "run", path, tiny,
                host.out / "grpo", env=host.env)
        print(f"{name}: passed")


def result_of(out):
    """What a run of one seed always gives: its digest of the weights and the metrics that are no
    times or rates."""
    one = pathlib.Path(out) / "grpo/one"
    lines = [json.loads(line) for line in (one / "metrics.jsonl").read_text().splitlines()]
    steps = [{k: v for k, v in line.items() if not re.match(r"timing_|perf/", k)} for line in lines]
    return json.loads((one / "summary.json").read_text())["weight_digest"], steps


def same(*outs):
    for out in outs:
        if not (pathlib.Path(out) / "grpo").is_dir():
            print(f"skipped: nothing was run in {out}")
    outs = [out for out in outs if (pathlib.Path(out) / "grpo").is_dir()]
    if len(outs) < 2:
        sys.exit("there are no two runs to compare")
    results = [result_of(out) for out in outs]
    for out, result in zip(outs[1:], results[1:]):
        if result != results[0]:
            sys.exit(f"{out} has other metrics or weights than {outs[0]}: "
                     f"{result[0]} and {results[0][0]}")
    digest, steps = results[0]
    print(f"{len(outs)} runs, weights {digest}, {len(steps)} steps of {len(steps[0])} metrics")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "same":
        same(*sys.argv[2:])
    elif len(sys.argv) == 5 and sys.argv[1] in ("make", "cmake", "static", "python", "wheel",
                                                "rust_static", "go_static"):
        target = Host(*sys.argv[2:])
        run_programs(target, globals()[sys.argv[1]](target))
    else:
        sys.exit(__doc__)
