#!/usr/bin/env python3
"""1_hello: the library, its features, its options and its errors. No model is needed.

  1_hello.py [KEY]        describes every option, or the one with this key

New here: rl.version, rl.build_info, rl.features, rl.option_infos, rl.Options, rl.Error."""
import sys

import rl

# ---- errors ----


def show_error(options):
    """A misspelt key is an error that knows the right one. True when it does."""
    try:
        options["engine.blok_size"] = 64
    except rl.Error as error:
        print(f"an error on purpose: {error}")
        return error.code is rl.Code.UNKNOWN_OPTION and error.nearest[0] == "engine.block_size"
    return False


# ---- pieces ----


def show_library():
    print("librl {}, interface {}.{}".format(rl.version(), *rl.abi_version()))
    for name, value in rl.build_info().items():
        print(f"{name}={value}")
    for feature in rl.features():
        print(f"feature {feature.name:12} {'yes' if feature.available else feature.reason}")


def show_option(info):
    print(f"{info.key} = {info.default_text} {info.unit}\n  {info.doc}")
    for name, doc in rl.option_choices(info.key).items():
        print(f"  {name}: {doc}")


# ---- main ----


def main(key=None):
    # Work.
    show_library()
    infos = list(rl.option_infos()) if key is None else [rl.find_option(key)]
    for info in infos:
        show_option(info)
    print(f"{len(infos)} options shown")
    options = rl.Options({"engine.block_size": 64})

    # Check.
    good = show_error(options) and options["engine.block_size"] == 64

    # End.
    options.close()
    if not good:
        print("1_hello: the library did not behave as expected", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:2]))
    except rl.Error as error:
        sys.exit(str(error))
