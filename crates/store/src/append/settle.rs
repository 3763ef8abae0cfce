//! What a stream remembers of an operation, and what follows for whoever sends it again.

use helenus_model::{ContentHash, OperationId};

use super::{Plan, Span};
use crate::contract::{AppendError, Appended};

/// What is stored of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) operation_id: OperationId,
    pub(crate) state: State,
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its events have these versions.
    Applied { span: Span, content_hash: Option<ContentHash> },
    /// It never will be applied.
    Cancelled,
}

impl Plan {
    /// The outcome of this append, given that its stream remembers `memory` in its place.
    pub(crate) fn settle(&self, memory: &Memory) -> Result<Appended, AppendError> {
        let operation_id = self.operation_id;
        if memory.operation_id != operation_id {
            return Err(AppendError::OperationIdTaken { operation_id });
        }
        match &memory.state {
            State::Cancelled => Err(AppendError::Cancelled { operation_id }),
            State::Applied { span, content_hash } if *content_hash == Some(self.content_hash) => {
                Ok(Appended::AlreadyApplied { first: span.first, last: span.last })
            }
            State::Applied { .. } => Err(AppendError::OperationMismatch { operation_id }),
        }
    }
}
