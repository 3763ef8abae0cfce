//! Log lines on stderr. Payloads and secrets are never logged at info level or above.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use crate::args::{Arguments, LogFormat};
use crate::config::Config;

/// Starts logging as arguments and configuration ask; `HELENUS_LOG__LEVEL` may hold a filter such
/// as `helenus_relay=debug`.
pub(crate) fn start(arguments: &Arguments, config: Option<&Config>) {
    let level = config.map_or("warn", |config| config.log.level.as_str());
    let builder = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into());
    // The driver logs what it also returns; a failure is told once. What the level says of the
    // driver itself stands.
    let filter = if level.contains("scylla") {
        builder.parse_lossy(level)
    } else {
        builder.parse_lossy(format!("{level},scylla=off"))
    };
    let json = match arguments.log_format {
        Some(format) => format == LogFormat::Json,
        None => config.is_some_and(|config| config.log.format == crate::config::LogFormat::Json),
    };
    let colours = std::io::stderr().is_terminal();
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    if json {
        builder.json().init();
    } else {
        builder.with_target(false).init();
    }
}
