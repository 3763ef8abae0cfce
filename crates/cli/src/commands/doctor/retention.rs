//! Whether receipts outlive the messages they are of: a message that comes again after its receipt is
//! gone is processed again.

use std::time::Duration;

use helenus::backend::{BrokerUrl, StoreUrl};
use helenus::broker::{Broker as _, Error, Retention};
use helenus::{Failure, Kind};

use super::{Finding, KAFKA_PATIENCE, Status};
use crate::config::Config;
use crate::open;

const CHECK: &str = "receipts";

/// Compares the two, where the inbox is used and the broker can be asked.
pub(super) async fn receipts(config: &Config) -> Option<Finding> {
    if !config.inbox.register {
        return None;
    }
    match config.broker.url {
        BrokerUrl::Embedded => embedded(config),
        BrokerUrl::Kafka(_) => kafka(config).await,
    }
}

/// In a file nothing goes by itself: what counts is what `helenus serve` removes.
fn embedded(config: &Config) -> Option<Finding> {
    if !matches!(config.store.url, StoreUrl::Sqlite(_)) {
        return None;
    }
    let ttl = config.inbox.receipt_ttl;
    if !config.serve.sweeper {
        return Some(Finding::ok(CHECK, "receipts are kept until somebody sweeps them"));
    }
    let kept = match config.serve.topic_retention {
        true => Retention::For(config.broker.retention),
        false => Retention::ForEver,
    };
    let remedy = "make inbox.receipt_ttl longer than broker.retention";
    Some(match shorter(ttl, kept) {
        None => Finding::ok(CHECK, format!("kept for {}, longer than embedded topics", days(ttl))),
        Some(kept) => Finding {
            check: CHECK,
            status: Status::Failed,
            detail: format!(
                "receipts are kept for {}, but embedded topics keep messages {kept}",
                days(ttl)
            ),
            remedy: Some(remedy.to_owned()),
        },
    })
}

async fn kafka(config: &Config) -> Option<Finding> {
    let ttl = config.inbox.receipt_ttl;
    match retentions(config).await {
        Ok(kept) => Some(judge(ttl, !config.inbox.topics.is_empty(), &kept)),
        // The check of the broker says so.
        Err(error) if error.kind() == Kind::Unavailable => None,
        Err(error) => Some(Finding::failed(CHECK, &error)),
    }
}

async fn retentions(config: &Config) -> Result<Vec<(String, Retention)>, Error> {
    // What is wrong with the login or the settings is told by the check of the broker.
    let Ok(broker) = open::broker_within(KAFKA_PATIENCE, None, config, None) else {
        return Ok(Vec::new());
    };
    let names = if config.inbox.topics.is_empty() {
        let topics = broker.topics().await?.into_iter().map(|topic| topic.name);
        topics.filter(|name| !name.starts_with("helenus.")).collect()
    } else {
        config.inbox.topics.clone()
    };
    broker.retentions(&names).await
}

/// The inbox's own topics must fit; of others somebody may know better.
fn judge(ttl: Duration, named: bool, kept: &[(String, Retention)]) -> Finding {
    let too_long = kept.iter().filter_map(|(topic, retention)| {
        if !named && *retention == Retention::LastOfKey {
            return None;
        }
        shorter(ttl, *retention).map(|kept| (topic, kept))
    });
    let too_long: Vec<_> = too_long.collect();
    let Some((topic, keeps)) = too_long.first() else {
        let count = kept.len();
        return Finding::ok(CHECK, format!("kept for {}, longer than {count} topics", days(ttl)));
    };
    let others = match too_long.len() - 1 {
        0 => String::new(),
        more => format!(" (and so do {more} more)"),
    };
    let (status, remedy) = if named {
        (Status::Failed, "make inbox.receipt_ttl longer, or the topic's retention.ms shorter")
    } else {
        let remedy =
            "make inbox.receipt_ttl longer, or say in inbox.topics which topics it receives";
        (Status::Warning, remedy)
    };
    let detail = format!(
        "receipts are kept for {}, but topic {topic} keeps messages {keeps}{others}",
        days(ttl)
    );
    Finding { check: CHECK, status, detail, remedy: Some(remedy.to_owned()) }
}

/// How long messages are kept, if receipts do not outlive them.
fn shorter(ttl: Duration, retention: Retention) -> Option<String> {
    match retention {
        Retention::For(kept) if kept < ttl => None,
        Retention::For(kept) => Some(format!("for {}", days(kept))),
        Retention::ForEver | Retention::LastOfKey => Some("for ever".to_owned()),
    }
}

fn days(duration: Duration) -> String {
    const DAY: u64 = 24 * 60 * 60;
    match duration.as_secs() {
        seconds if seconds >= DAY && seconds.is_multiple_of(DAY) => format!("{}d", seconds / DAY),
        _ => format!("{duration:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn found(named: bool, kept: &[(&str, Retention)]) -> (Status, String) {
        let kept: Vec<_> = kept.iter().map(|(topic, kept)| ((*topic).to_owned(), *kept)).collect();
        let Finding { status, detail, .. } = judge(30 * DAY, named, &kept);
        (status, detail)
    }

    #[test]
    fn receipts_must_outlive_messages() {
        let week = ("orders", Retention::For(7 * DAY));
        assert_eq!(found(true, &[week]).0, Status::Ok);
        let same = ("bills", Retention::For(30 * DAY));
        let (status, detail) = found(true, &[week, same, ("log", Retention::ForEver)]);
        assert_eq!(status, Status::Failed);
        let words = "receipts are kept for 30d, but topic bills keeps messages for 30d \
                     (and so do 1 more)";
        assert_eq!(detail, words);
        assert_eq!(found(false, &[same]).0, Status::Warning);
    }

    #[test]
    fn a_compacted_topic_counts_where_the_inbox_is_said_to_receive_it() {
        let compacted = [("tables", Retention::LastOfKey)];
        assert_eq!(found(false, &compacted).0, Status::Ok);
        let (status, detail) = found(true, &compacted);
        assert_eq!(status, Status::Failed);
        assert!(detail.ends_with("topic tables keeps messages for ever"), "{detail}");
    }
}
