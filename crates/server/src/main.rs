//! The hoglake binary. Everything is in the library beside it.

fn main() -> std::process::ExitCode {
    hoglake_server::cli::main()
}
