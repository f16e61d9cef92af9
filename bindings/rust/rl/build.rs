//! The build script of packages with programs or tests: these find librl at run time where rl-sys
//! found it.
fn main() {
    println!("cargo:rerun-if-changed=Cargo.toml"); // not whenever a source changes
    if let Ok(dir) = std::env::var("DEP_RL_LIBDIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
    }
}
