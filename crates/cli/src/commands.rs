//! One module a command.

pub(crate) mod body;
pub(crate) mod capture;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod outbox;
pub(crate) mod relay;
pub(crate) mod segments;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod topics;
pub(crate) mod versions;
