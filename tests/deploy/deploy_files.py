#!/usr/bin/env python3
"""The files of examples/deploy are well-formed, and what they tell programs is what those take: the
words are known to 4_grpo.c or ray_pair.py, the settings to abi/options.yml.

usage: deploy_files.py SOURCE_DIRECTORY
"""
import pathlib
import re
import subprocess
import sys

# The programs whose arguments a file names, and the fewest options that it has.
FILES = {"README.md": ((), 4), "kubernetes.yaml": (("examples/c/4_grpo.c",), 3),
         "ray_pair.py": (("examples/deploy/ray_pair.py",), 8),
         "redis_store.c": ((), 0), "redis_store.h": ((), 0),
         "slurm.sh": (("examples/c/4_grpo.c",), 3),
         "slurm_ray.sh": (("examples/deploy/ray_pair.py",), 0)}
OF_OTHERS = {"--cpus-per-task", "--cpu-bind", "--address", "--min-nodes", "--num-cpus",
             "--nodes", "--ntasks-per-node"}


def bash_problem(text):
    return subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True).stderr


def yaml_problems(path):
    try:
        import yaml
    except ImportError:
        print("skipped: the syntax of kubernetes.yaml, since python3-yaml is not installed")
        return
    try:
        service, job = yaml.safe_load_all(path.read_text())
        pod = job["spec"]["template"]["spec"]
        container, = pod["containers"]
        shell, *words = container["args"]
        if container["command"] != ["/bin/bash", "-c"] or not all(isinstance(word, str)
                                                                  for word in words):
            yield "the container does not run bash with words"
        yield bash_problem(shell)
        rules = job["spec"]["podFailurePolicy"]["rules"]
        if pod["restartPolicy"] != "Never":
            yield "a podFailurePolicy needs restartPolicy Never"
        if [rule["onExitCodes"]["containerName"] for rule in rules if "onExitCodes" in rule] != [
                container["name"]]:
            yield "the rule for exit codes is not of the container"
        variables = {each["name"]: each["value"] for each in container["env"]}
        ranks, name = str(job["spec"]["completions"]), service["metadata"]["name"]
        if [variables["WORLD_SIZE"], str(job["spec"]["parallelism"])] != [ranks, ranks]:
            yield "the pods do not know how many they are, or do not run at once"
        if job["spec"]["completionMode"] != "Indexed" or pod["subdomain"] != name:
            yield "the pods have no numbers or no names"
        if variables["MASTER_ADDR"] != f"{job['metadata']['name']}-0.{name}":
            yield f"the ranks do not meet at the first pod, but at {variables['MASTER_ADDR']}"
        if container["resources"]["requests"] != container["resources"]["limits"]:
            yield "requests and limits differ, so the pod has no cores of its own"
    except (yaml.YAMLError, KeyError, ValueError) as error:
        yield repr(error)


def syntax_problems(path, text):
    if path.suffix == ".sh":
        yield bash_problem(text)
    elif path.suffix == ".py":
        try:
            compile(text, str(path), "exec")
        except SyntaxError as error:
            yield repr(error)
    elif path.suffix == ".yaml":
        yield from yaml_problems(path)


def problems_of(path, source):
    text = path.read_text()
    yield from syntax_problems(path, text)
    programs, fewest = FILES[path.name]
    code = "".join((source / program).read_text() for program in programs)
    for word in re.findall(r'(?<=[\s"\[])--[a-z][a-z-]*', re.sub(r"(?m)^#SBATCH.*", "", text)):
        if programs and word not in OF_OTHERS and f'"{word}"' not in code:
            yield f"{' and '.join(programs)} take no {word}"
    options = re.findall(r"^- name: (\S+)", (source / "abi/options.yml").read_text(), re.M)
    groups = "|".join(sorted({option.split(".")[0] for option in options}))
    keys = re.findall(rf"(?:[`\"]|\b)((?:{groups})(?:\.[a-z_]+)+)[=\"`]", text)
    yield from (f"there is no option {key}" for key in keys if key not in options)
    if len(keys) < fewest:
        yield f"the settings were not found, only {keys}"


def main(source):
    source = pathlib.Path(source)
    paths = sorted((source / "examples/deploy").iterdir())
    if [path.name for path in paths] != sorted(FILES):
        sys.exit(f"examples/deploy has {[path.name for path in paths]}")
    found = [f"{path.name}: {problem.strip()}" for path in paths
             for problem in problems_of(path, source) if problem]
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
