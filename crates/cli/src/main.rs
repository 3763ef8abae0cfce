//! The `helenus` command: arguments → configuration → library call → output and exit code.

mod answering;
mod args;
mod commands;
mod config;
mod exit;
mod logging;
mod open;
mod output;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};
use exit::{Failed, Outcome};
use output::Output;

/// A relay reads each message into a dozen pieces of memory and sets them free in other threads: with the
/// system's allocator that is a fifth of its time.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    let output = Output::new(arguments.json);
    let ended = run(&arguments, &output);
    let json = arguments.json;
    match ended.and_then(|outcome| output.finish().map(|()| outcome)) {
        Ok(outcome) => outcome.into(),
        Err(failed) => {
            output::failure(&failed, json);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments, output: &Output) -> Result<Outcome, Failed> {
    match &arguments.command {
        Command::Init(init) => return commands::init::run(init, output),
        Command::Completions { shell } => return commands::shell::completions(*shell, output),
        Command::Man { directory } => return commands::shell::man(directory.as_deref(), output),
        Command::Capture(_)
        | Command::Demo(_)
        | Command::Doctor
        | Command::Events(_)
        | Command::Inbox(_)
        | Command::Outbox(_)
        | Command::Relay(_)
        | Command::Segments(_)
        | Command::Serve(_)
        | Command::Topics(_)
        | Command::Versions(_) => {}
    }
    let config = config::load(arguments.config.as_deref());
    logging::start(arguments, config.as_ref().ok());
    if let Command::Segments(segments) = &arguments.command {
        return commands::segments::run(segments, config?, output);
    }
    let runtime = tokio::runtime::Runtime::new()
        .map_err(Failed::system("start the runtime", "free some memory or threads"))?;
    let ended = runtime.block_on(async {
        match &arguments.command {
            Command::Demo(demo) => commands::demo::run(demo, output).await,
            Command::Capture(capture) => {
                Box::pin(commands::capture::run(capture, config?, output)).await
            }
            Command::Events(events) => commands::events::run(events, config?, output).await,
            Command::Outbox(outbox) => commands::outbox::run(outbox, config?, output).await,
            Command::Inbox(inbox) => commands::inbox::run(inbox, config?, output).await,
            Command::Serve(serve) => Box::pin(commands::serve::run(serve, config?, output)).await,
            Command::Relay(relay) => Box::pin(commands::relay::run(relay, config?, output)).await,
            Command::Versions(versions) => {
                Box::pin(commands::versions::run(versions, config?, output)).await
            }
            Command::Topics(topics) => commands::topics::run(topics, config?, output).await,
            // A broken configuration is the first thing a doctor should speak of.
            _ => Box::pin(commands::doctor::run(config, output)).await,
        }
    });
    // Threads that still wait for a service which is away have nothing left to say.
    runtime.shutdown_background();
    ended
}
