//! Structured logs on standard error.
//!
//! Field names carry their unit (`duration_ms`, `size_bytes`). A request's events carry its `request_id`. Credentials,
//! tokens and bodies are never logged.

use crate::config::ConfigError;
use crate::config::log::{LogConfig, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::Subscriber;

/// Starts logging for the whole process.
///
/// # Errors
/// When the filter cannot be parsed.
pub fn init(config: &LogConfig) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.log)
        .map_err(|error| ConfigError(format!("HOGLAKE_LOG (--log) is no log filter: {error}")))?;
    let terminal = std::io::stderr().is_terminal();
    let json = match config.log_format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let builder =
        Subscriber::builder().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(terminal && !json);
    // A second call, as tests make it, keeps the first subscriber.
    let _ = if json {
        tracing::subscriber::set_global_default(
            builder.json().flatten_event(true).with_current_span(true).with_span_list(false).finish(),
        )
    } else {
        tracing::subscriber::set_global_default(builder.compact().finish())
    };
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(target: "hoglake.panic", place, "{}", panic.payload_as_str().unwrap_or("panic"));
    }));
    Ok(())
}
