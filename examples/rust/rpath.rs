//! The build script of packages with programs or tests: these find librl at run time where rl-sys
//! found it.
fn main() {
    println!("cargo:rerun-if-changed=../rpath.rs");
    if let Ok(dir) = std::env::var("DEP_RL_LIBDIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
    }
}
