//! Finds librl: in the directory RL_LIB_DIR when that is set, else where pkg-config says. A library
//! of another version than this package can use is refused here. Packages that link rl-sys learn
//! the directory as DEP_RL_LIBDIR.
use std::path::Path;
use std::process::{exit, Command};

fn main() {
    for name in ["RL_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let found = match std::env::var("RL_LIB_DIR") {
        Ok(dir) => in_directory(dir),
        Err(_) => by_pkg_config(),
    };
    match found {
        Ok(dir) => {
            println!("cargo:rustc-link-search=native={dir}");
            println!("cargo:rustc-link-lib=dylib=rl");
            println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
            println!("cargo:libdir={dir}");
        }
        Err(text) => {
            eprintln!("rl-sys: {text}");
            exit(1);
        }
    }
}

fn in_directory(dir: String) -> Result<String, String> {
    if Path::new(&dir).join("librl.so").exists() {
        return Ok(dir);
    }
    Err(format!("RL_LIB_DIR is {dir:?}, where there is no librl.so"))
}

fn by_pkg_config() -> Result<String, String> {
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
    in_directory(run(&["--variable=libdir", "rl"])?)
        .map_err(|text| text.replace("RL_LIB_DIR", "the libdir of pkg-config"))
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
