//! Finds librl: in the directory RL_LIB_DIR when that is set, else where pkg-config says. With the
//! feature `static` it is librl.a, and pkg-config alone knows what else a program then needs. A
//! library of another version than this package can use is refused here. Packages that link rl-sys
//! learn the directory of librl.so as DEP_RL_LIBDIR.
use std::path::Path;
use std::process::{exit, Command};

fn main() {
    for name in ["RL_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("RL_LIB_DIR");
    let found = match (std::env::var_os("CARGO_FEATURE_STATIC").is_some(), given) {
        (false, Ok(dir)) => shared(dir, "RL_LIB_DIR"),
        (false, Err(_)) => pkg_config(&["--variable=libdir", "rl"])
            .and_then(|dir| shared(dir, "the libdir of pkg-config")),
        (true, Ok(_)) => {
            Err("feature static needs pkg-config, which RL_LIB_DIR replaces: unset it".into())
        }
        (true, Err(_)) => pkg_config(&["--static", "--libs", "rl"]).and_then(|f| archive(&f)),
    };
    match found {
        Ok(lines) => lines.iter().for_each(|line| println!("cargo:{line}")),
        Err(text) => {
            eprintln!("rl-sys: {text}");
            exit(1);
        }
    }
}

/// What cargo is told of librl.so in a directory. The link leads to librl.so.VERSION.
fn shared(dir: String, source: &str) -> Result<Vec<String>, String> {
    let file = Path::new(&dir)
        .join("librl.so")
        .canonicalize()
        .map_err(|_| format!("{source} is {dir:?}, which has no librl.so"))?;
    let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let (least, below) = versions();
    if let Some(version) = name.strip_prefix("librl.so.") {
        let found = numbers(version);
        if found < numbers(&least) || found >= numbers(&below) {
            return Err(format!(
                "{source} is {dir:?}, which has librl {version}; this package needs rl >= {least} \
                 rl < {below}"
            ));
        }
    }
    Ok(vec![
        format!("rustc-link-search=native={dir}"),
        "rustc-link-lib=dylib=rl".to_string(),
        format!("rustc-link-arg=-Wl,-rpath,{dir}"),
        format!("libdir={dir}"),
    ])
}

/// What it is told of librl.a, by the linker's flags: -L of directories, and -l of librl itself and
/// of the shared libraries that it is made from.
fn archive(flags: &str) -> Result<Vec<String>, String> {
    let of = |prefix: &'static str| {
        flags.split_whitespace().filter_map(move |flag| flag.strip_prefix(prefix))
    };
    let archive = of("-L").map(|dir| Path::new(dir).join("librl.a")).find(|path| path.exists());
    let archive = archive.ok_or(format!("no directory of pkg-config has librl.a: {flags}"))?;
    let kind = |name| if name == "rl" { "static" } else { "dylib" };
    let mut lines = vec![format!("rerun-if-changed={}", archive.display())];
    lines.extend(of("-L").map(|dir| format!("rustc-link-search=native={dir}")));
    lines.extend(of("-l").map(|name| format!("rustc-link-lib={}={name}", kind(name))));
    Ok(lines)
}

/// What pkg-config answers, of a version that this package can use.
fn pkg_config(question: &[&str]) -> Result<String, String> {
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    let (least, below) = versions();
    let wanted = format!("rl >= {least} rl < {below}");
    let advice =
        "set PKG_CONFIG_PATH to PREFIX/lib/pkgconfig of an installed librl, or RL_LIB_DIR to the \
                  directory of librl.so";
    let run = |arguments: &[&str]| {
        let done = Command::new(&program)
            .args(arguments)
            .output()
            .map_err(|e| format!("{program} cannot be run ({e}): {advice}"))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("pkg-config has no \"{wanted}\": {advice}\n{}", said.trim()));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_string())
    };
    run(&["--print-errors", "--exists", &wanted])?;
    run(question)
}

/// The parts of a version.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// The versions of librl from the first to before the second have the interface of this package:
/// those of its major version, and before 1.0, when a minor version may break it, of its minor
/// version.
fn versions() -> (String, String) {
    let part = |name: &str| std::env::var(name).map_or(0, |text| text.parse::<u32>().unwrap_or(0));
    let major = part("CARGO_PKG_VERSION_MAJOR");
    let minor = part("CARGO_PKG_VERSION_MINOR");
    if major == 0 {
        return (format!("0.{minor}"), format!("0.{}", minor + 1));
    }
    (format!("{major}.{minor}"), format!("{}", major + 1))
}
