//! One module a command.

pub(crate) mod capture;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod init;
pub(crate) mod interruption;
pub(crate) mod segments;
pub(crate) mod shell;
