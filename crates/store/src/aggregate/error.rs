//! Why an aggregate could not be loaded.

use std::borrow::Cow;

use helenus_model::{Failure, Kind, Version};
use serde_json::{Map, Value};

use crate::contract::{Error, ReadError};
use crate::typed::DecodeError;

/// Why an aggregate could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The snapshot is of this type and shape, and is not what it should be.
    #[error("the snapshot of version {version} cannot be read")]
    Snapshot {
        /// Its version.
        version: Version,
        /// What is wrong with it.
        #[source]
        source: Box<serde_json::Error>,
    },
    /// The events after the snapshot could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An event could not be resolved.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The backend failed.
    #[error("the store failed")]
    Backend(#[from] Error),
}

impl Failure for LoadError {
    fn kind(&self) -> Kind {
        match self {
            LoadError::Snapshot { .. } => Kind::Corrupt,
            LoadError::Read(error) => error.kind(),
            LoadError::Decode(error) => error.kind(),
            LoadError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            LoadError::Snapshot { .. } => "corrupt",
            LoadError::Read(error) => error.code(),
            LoadError::Decode(error) => error.code(),
            LoadError::Backend(error) => error.code(),
        }
    }

    fn applied(&self) -> Option<bool> {
        Some(false)
    }

    fn details(&self) -> Map<String, Value> {
        match self {
            LoadError::Read(error) => error.details(),
            LoadError::Backend(error) => error.details(),
            LoadError::Snapshot { .. } | LoadError::Decode(_) => Map::new(),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            LoadError::Snapshot { .. } => {
                Some("count the snapshot's schema version up: all events are read then".into())
            }
            LoadError::Read(error) => error.remedy(),
            LoadError::Decode(error) => error.remedy(),
            LoadError::Backend(error) => error.remedy(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_small() {
        assert!(size_of::<LoadError>() <= 64, "{}", size_of::<LoadError>());
    }
}
