//! `helenus completions` and `helenus man`: what a shell and a manual need, made from the same
//! arguments the command takes.

use std::path::Path;

use clap::CommandFactory;

use crate::args::Arguments;
use crate::exit::{Failed, Outcome};
use crate::output::Output;

pub(crate) fn completions(shell: clap_complete::Shell, output: &Output) -> Result<Outcome, Failed> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "helenus", &mut script);
    output.text(&String::from_utf8_lossy(&script));
    Ok(Outcome::Done)
}

pub(crate) fn man(directory: Option<&Path>, output: &Output) -> Result<Outcome, Failed> {
    match directory {
        Some(directory) => {
            std::fs::create_dir_all(directory)
                .and_then(|()| clap_mangen::generate_to(Arguments::command(), directory))
                .map_err(Failed::system(
                    format!("write manual pages to {}", directory.display()),
                    "name a folder that may be written",
                ))?;
            output.line(format!("wrote the manual pages to {}", directory.display()));
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Arguments::command())
                .render(&mut page)
                .map_err(Failed::system("write the manual page", "try again"))?;
            output.text(&String::from_utf8_lossy(&page));
        }
    }
    Ok(Outcome::Done)
}
