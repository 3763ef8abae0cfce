//! How an agent is, for whoever asks over HTTP.

use std::sync::Arc;
use std::time::Duration;

use helenus::capture::agent::Status;
use helenus::{Clock, Timestamp};
use helenus_server::Condition;
use serde_json::{Value, json};
use tokio::sync::watch;

/// An agent that works, or waits for something, tells of itself more often than this.
const STALE_AFTER: Duration = Duration::from_secs(30);

/// What the agent last told of itself.
#[derive(Debug)]
pub(super) struct Told {
    status: watch::Receiver<Option<Status>>,
    clock: Arc<dyn Clock>,
}

impl Told {
    pub(super) fn new(status: watch::Receiver<Option<Status>>, clock: Arc<dyn Clock>) -> Self {
        Told { status, clock }
    }
}

impl Condition for Told {
    /// An agent that cannot go on ends its process.
    fn given_up(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn readiness(&self) -> (bool, Value) {
        let status = self.status.borrow().clone();
        let reasons = reasons(status.as_ref(), self.clock.now());
        (
            reasons.is_empty(),
            json!({ "ready": reasons.is_empty(), "reasons": reasons, "status": status }),
        )
    }
}

fn reasons(status: Option<&Status>, now: Timestamp) -> Vec<String> {
    let Some(status) = status else {
        return vec!["the agent has not looked at the log yet".to_owned()];
    };
    let mut reasons = Vec::new();
    if let Some(waiting_for) = &status.waiting_for {
        reasons.push(format!("changes wait: {waiting_for}"));
    }
    if let Some(away) = &status.node_away {
        reasons.push(format!("the node does not answer, segments are kept: {away}"));
    }
    if status.updated_at < now.minus(STALE_AFTER) {
        reasons.push(format!("the agent has told nothing of itself since {}", status.updated_at));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_ready_or_says_why_not() {
        let told = |second: i64, waiting_for: Option<&str>| Status {
            node: "n1".to_owned(),
            updated_at: Timestamp::from_micros(second * 1_000_000),
            segment: None,
            offset: None,
            segments: 0,
            published: 0,
            quarantined: 0,
            unread_bytes: 0,
            used_bytes: 0,
            limit_bytes: None,
            seconds_left: None,
            deletes_unread: false,
            waiting_for: waiting_for.map(str::to_owned),
            node_away: None,
        };
        let now = Timestamp::from_micros(100_000_000);
        assert_eq!(reasons(Some(&told(99, None)), now), [""; 0]);
        assert_eq!(reasons(Some(&told(99, Some("no broker"))), now), ["changes wait: no broker"]);
        let silent = reasons(Some(&told(60, None)), now);
        assert!(silent.len() == 1 && silent[0].contains("1970-01-01T00:01:00"), "{silent:?}");
        assert_eq!(reasons(None, now).len(), 1);
        let away = Status { node_away: Some("refused".to_owned()), ..told(99, None) };
        assert!(reasons(Some(&away), now)[0].ends_with("kept: refused"));
    }
}
