//! `helenus init`: a configuration file with every key explained.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use helenus::{Failure, Kind};

use crate::args::Init;
use crate::config;
use crate::exit::{Failed, Outcome};
use crate::output::Output;

pub(crate) fn run(init: &Init, output: &Output) -> Result<Outcome, Failed> {
    let mut options = OpenOptions::new();
    if init.force {
        options.write(true).create(true).truncate(true);
    } else {
        options.write(true).create_new(true);
    }
    let written =
        options.open(&init.file).and_then(|mut file| file.write_all(config::template().as_bytes()));
    match written {
        Ok(()) => {
            output.line(format!("wrote {}", init.file.display()));
            output.document(&serde_json::json!({ "file": init.file }));
            Ok(Outcome::Done)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(AlreadyThere { file: init.file.clone() }.into())
        }
        Err(error) => {
            let what = format!("write {}", init.file.display());
            Err(Failed::system(what, "name a file in a folder that may be written")(error))
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{} exists already", file.display())]
struct AlreadyThere {
    file: PathBuf,
}

impl Failure for AlreadyThere {
    fn kind(&self) -> Kind {
        Kind::Conflict
    }

    fn code(&self) -> &'static str {
        "exists"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("name another file, or replace it with --force".into())
    }
}
