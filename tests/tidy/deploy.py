#!/usr/bin/env python3
"""examples/deploy is well-formed, and what it tells the program is what the program takes: its
words are known to 4_grpo.c and its settings to abi/options.yml.

usage: deploy.py SOURCE_DIRECTORY
"""
import pathlib
import re
import subprocess
import sys

FILES = {"slurm.sh", "kubernetes.yaml", "ray_host.py"}


def bash_problem(text):
    return subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True).stderr


def yaml_problems(path):
    try:
        import yaml
    except ImportError:
        print("skipped: the syntax of kubernetes.yaml, since python3-yaml is not installed")
        return
    try:
        job = yaml.safe_load(path.read_text())
        container, = job["spec"]["template"]["spec"]["containers"]
        shell, *words = container["args"]
        if container["command"] != ["/bin/bash", "-c"] or not all(isinstance(word, str)
                                                                  for word in words):
            yield "the container does not run bash with words"
        yield bash_problem(shell)
    except (yaml.YAMLError, KeyError, ValueError) as error:
        yield repr(error)


def problems_of(path, source):
    text = path.read_text()
    if path.suffix == ".sh":
        yield bash_problem(text)
    elif path.suffix == ".py":
        try:
            compile(text, str(path), "exec")
        except SyntaxError as error:
            yield repr(error)
    else:
        yield from yaml_problems(path)
    program = (source / "examples/c/4_grpo.c").read_text()
    for word in re.findall(r'(?<=[\s"])--(?:model|data|eval|out|steps|set|resume)\b|(?<=- )--\S+',
                           text):
        if f'"{word}"' not in program:
            yield f"4_grpo takes no {word}"
    options = re.findall(r"^- name: (\S+)", (source / "abi/options.yml").read_text(), re.M)
    keys = re.findall(r"\b([a-z]+(?:\.[a-z_]+)+)=", text)
    yield from (f"there is no option {key}" for key in keys if key not in options)
    if len(keys) < 3:
        yield "the settings were not found"


def main(source):
    source = pathlib.Path(source)
    paths = sorted((source / "examples/deploy").iterdir())
    found = [f"{path.name}: {problem.strip()}" for path in paths
             for problem in problems_of(path, source) if problem]
    if {path.name for path in paths} != FILES:
        found.append(f"examples/deploy has {[path.name for path in paths]}")
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
