//! What an error proves about a conditional write.
//!
//! Only an answer that says so, and errors from before execution, prove that nothing was written.
//! A write time-out, whichever its type, may come from a round that was decided; so may a failure,
//! an overloaded coordinator or a connection that broke while the answer was on its way.

use scylla::errors::{
    DbError, ExecutionError, PagerExecutionError, PrepareError, RequestAttemptError,
};

use super::Error;

/// What an error says about its own request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// The request is wrong; it was not executed.
    Refused,
    /// It was not executed this time.
    NotExecuted,
    /// Nothing.
    None,
}

/// The driver's error as ours: [`Error::Lost`] where the request may have been applied.
pub fn request_error(what: &'static str, error: ExecutionError) -> Error {
    let proof = proof(&error);
    let source = Box::new(error);
    match proof {
        Proof::Refused => Error::Refused { what, source },
        Proof::NotExecuted => Error::Unavailable { what, source },
        Proof::None => Error::Lost { what, source },
    }
}

/// The same for a read, of which nothing can be lost.
pub fn read_error(error: ExecutionError) -> Error {
    match request_error("read", error) {
        Error::Lost { what, source } => Error::Unavailable { what, source },
        error => error,
    }
}

/// The same for the first page of a long read.
pub(super) fn page_error(error: impl Into<PagerExecutionError>) -> Error {
    Error::Unavailable { what: "read", source: Box::new(error.into()) }
}

/// The same for preparing a statement.
pub fn prepare_error(error: PrepareError) -> Error {
    request_error("prepare a statement", ExecutionError::PrepareError(error))
}

fn proof(error: &ExecutionError) -> Proof {
    match error {
        ExecutionError::BadQuery(_) => Proof::Refused,
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => Proof::NotExecuted,
        ExecutionError::PrepareError(PrepareError::AllAttemptsFailed { first_attempt }) => {
            match attempt_proof(first_attempt) {
                Proof::Refused => Proof::Refused,
                _ => Proof::NotExecuted,
            }
        }
        ExecutionError::PrepareError(_) => Proof::NotExecuted,
        ExecutionError::LastAttemptError(error) => attempt_proof(error),
        _ => Proof::None,
    }
}

fn attempt_proof(error: &RequestAttemptError) -> Proof {
    match error {
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_) => Proof::Refused,
        RequestAttemptError::UnableToAllocStreamId => Proof::NotExecuted,
        RequestAttemptError::DbError(error, _) => match error {
            DbError::SyntaxError
            | DbError::Invalid
            | DbError::Unauthorized
            | DbError::AuthenticationError
            | DbError::ConfigError
            | DbError::AlreadyExists { .. } => Proof::Refused,
            // Of this attempt only: an earlier one may still be under way in another coordinator.
            DbError::Unavailable { .. } => Proof::NotExecuted,
            _ => Proof::None,
        },
        _ => Proof::None,
    }
}

#[cfg(test)]
mod tests {
    use scylla::errors::{BadQuery, WriteType};
    use scylla::statement::Consistency;

    use super::*;

    #[test]
    fn only_what_was_not_executed_is_known_not_to_be_applied() {
        let db = |error| {
            let attempt = RequestAttemptError::DbError(error, String::new());
            ExecutionError::LastAttemptError(attempt)
        };
        let timed_out = |write_type| {
            let consistency = Consistency::Quorum;
            db(DbError::WriteTimeout { consistency, received: 1, required: 2, write_type })
        };
        let consistency = Consistency::Quorum;
        for (error, expected) in [
            (ExecutionError::BadQuery(BadQuery::TooManyQueriesInBatchStatement(1)), Proof::Refused),
            (ExecutionError::EmptyPlan, Proof::NotExecuted),
            (ExecutionError::RequestTimeout(std::time::Duration::ZERO), Proof::None),
            (
                ExecutionError::LastAttemptError(RequestAttemptError::UnableToAllocStreamId),
                Proof::NotExecuted,
            ),
            (db(DbError::SyntaxError), Proof::Refused),
            (db(DbError::Invalid), Proof::Refused),
            (db(DbError::Unauthorized), Proof::Refused),
            (db(DbError::Unavailable { consistency, required: 2, alive: 1 }), Proof::NotExecuted),
            (db(DbError::Overloaded), Proof::None),
            (db(DbError::IsBootstrapping), Proof::None),
            (db(DbError::ServerError), Proof::None),
            (timed_out(WriteType::Cas), Proof::None),
            (timed_out(WriteType::Simple), Proof::None),
        ] {
            assert_eq!(proof(&error), expected, "{error}");
        }
    }
}
