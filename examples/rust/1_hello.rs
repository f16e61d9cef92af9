//! 1_hello: the library, its features, its options and its errors. No model is needed.
//!
//!     1_hello [KEY]        describes every option, or the one with this key
//!
//! New here: rl::version, build_info, features, option_table, Options::set, the fields of Error.
use std::process::ExitCode;

// ---- errors ----

fn fail(error: rl::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

// ---- pieces ----

fn show_library() -> rl::Result<()> {
    let (major, minor) = rl::abi_version();
    println!("librl {}, interface {major}.{minor}", rl::version());
    print!("{}", rl::build_info()?);
    for feature in rl::features()? {
        let state = if feature.available { "yes" } else { &feature.reason };
        println!("feature {:<12} {state}", feature.name);
    }
    Ok(())
}

fn show_option(info: &rl::OptionInfo) -> rl::Result<()> {
    println!("{} = {} {}\n  {}", info.key, info.default_text, info.unit, info.doc);
    for (name, doc) in info.choices()? {
        println!("  {name}: {doc}");
    }
    Ok(())
}

fn show_options(key: Option<&str>) -> rl::Result<usize> {
    let infos = match key {
        Some(key) => vec![rl::option(key)?],
        None => rl::option_table()?,
    };
    for info in &infos {
        show_option(info)?;
    }
    Ok(infos.len())
}

/// A misspelt key is an error that knows the right one. True when it does.
fn show_error(options: &mut rl::Options) -> bool {
    match options.set("engine.blok_size", "64") {
        Ok(()) => false,
        Err(error) => {
            println!("an error on purpose: {}", error.summary);
            let nearest = error.nearest.first().map(String::as_str);
            error.status == rl::Status::UnknownOption && nearest == Some("engine.block_size")
        }
    }
}

// ---- main ----

fn main() -> ExitCode {
    run().unwrap_or_else(fail)
}

fn run() -> rl::Result<ExitCode> {
    let key = std::env::args().nth(1);

    // Work.
    show_library()?;
    println!("{} options shown", show_options(key.as_deref())?);
    let mut options = rl::Options::new()?;
    options.set("engine.block_size", "64")?;
    let block_size = options.get_i64("engine.block_size")?;

    // Check.
    let good = show_error(&mut options) && block_size == 64;

    // End: dropping an object ends it.
    if !good {
        eprintln!("1_hello: the library did not behave as expected");
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
