//! `helenus topics`: what is in topics, on either broker.

mod shown;

use std::time::Duration;

use helenus::Broker;
use helenus::backend::BrokerUrl;
use helenus::broker::{Broker as _, Offset, Position};

use crate::args::{ReadTopic, Topics, TopicsCommand};
use crate::config::Config;
use crate::exit::{Failed, Outcome};
use crate::open;
use crate::output::Output;

use shown::{Message, payload};

/// Messages read at once.
const PAGE: usize = 500;
/// How long somebody who looks at a list waits for it.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often to look for more at the end.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) async fn run(
    topics: &Topics,
    config: Config,
    output: &Output,
) -> Result<Outcome, Failed> {
    let store = match open::broker_url(topics.broker.as_ref(), &config)? {
        BrokerUrl::Embedded => Some(open::store(topics.store.as_ref(), &config).await?),
        BrokerUrl::Kafka(_) => None,
    };
    let (named, file) = (topics.broker.as_ref(), store.as_ref());
    let done = match &topics.command {
        TopicsCommand::List => {
            list(&open::broker_within(PATIENCE, named, &config, file)?, output).await
        }
        TopicsCommand::Read(read) => {
            let broker = open::broker(named, &config, file)?;
            Box::pin(Reading::new(broker, read, output).run()).await
        }
    };
    if let Some(store) = store {
        store.close().await;
    }
    done.map(|()| Outcome::Done)
}

async fn list(broker: &Broker, output: &Output) -> Result<(), Failed> {
    let topics = broker.topics().await?;
    output.document(&topics);
    let rows = topics.into_iter().map(|topic| [topic.name, topic.partitions.to_string()]);
    output.table(["topic", "partitions"], rows.collect());
    Ok(())
}

struct Reading<'a> {
    broker: Broker,
    read: &'a ReadTopic,
    output: &'a Output,
    left: u64,
}

/// Where reading a partition is, and where it ends.
struct Partition {
    next: Position,
    end: Offset,
}

impl<'a> Reading<'a> {
    fn new(broker: Broker, read: &'a ReadTopic, output: &'a Output) -> Self {
        Reading { broker, read, output, left: read.limit.unwrap_or(u64::MAX) }
    }

    async fn run(mut self) -> Result<(), Failed> {
        let mut partitions = self.begin().await?;
        loop {
            let mut is_quiet = true;
            for partition in &mut partitions {
                is_quiet &= self.page(partition).await? == 0;
                if self.left == 0 || self.output.has_ended() {
                    return Ok(());
                }
            }
            if is_quiet && self.read.until_end {
                return Ok(());
            }
            if is_quiet {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    async fn begin(&self) -> Result<Vec<Partition>, Failed> {
        let topic = &self.read.topic;
        let mut partitions = Vec::new();
        for (partition, bounds) in (0_u32..).zip(self.broker.bounds(topic).await?) {
            let committed = match &self.read.group {
                Some(group) => self.broker.committed(group, topic, partition).await?,
                None => None,
            };
            let from_start = self.read.from_beginning || self.read.group.is_some();
            let usual = if from_start { bounds.start } else { bounds.end };
            let offset = committed.unwrap_or(usual);
            let next = Position { topic: topic.as_str().into(), partition, offset };
            partitions.push(Partition { next, end: bounds.end });
        }
        Ok(partitions)
    }

    /// Prints some messages of a partition; how many.
    async fn page(&mut self, partition: &mut Partition) -> Result<usize, Failed> {
        if self.read.until_end && partition.next.offset >= partition.end {
            return Ok(0);
        }
        let limit = usize::try_from(self.left).unwrap_or(PAGE).min(PAGE);
        let mut records = self.broker.read(partition.next.clone(), limit).await?;
        if self.read.until_end {
            records.retain(|record| record.position.offset < partition.end);
        }
        for record in &records {
            self.output.json_line(&Message::of(record, &payload(record)));
        }
        let Some(last) = records.last() else { return Ok(0) };
        partition.next.offset = last.position.offset.next();
        self.left -= records.len() as u64;
        if let Some(group) = &self.read.group
            && !self.output.has_ended()
        {
            self.broker.commit(group, partition.next.clone()).await?;
        }
        Ok(records.len())
    }
}

#[cfg(test)]
mod tests {
    use helenus::Timestamp;
    use helenus::broker::{Offset, Position, Record};
    use serde_json::json;

    use super::shown::{Message, payload};

    #[test]
    fn a_message_shows_what_it_is() {
        let position = Position { topic: "orders".into(), partition: 2, offset: Offset(7) };
        let header = |name: &'static str, value: &[u8]| (name.into(), value.to_vec().into());
        let record = Record {
            position,
            key: Some(b"order-1".to_vec()),
            headers: vec![
                header("content-type", b"application/json"),
                header("tag", b"a"),
                header("tag", b"b"),
                header("raw", &[0, 255]),
            ],
            payload: br#"{"total":12}"#.to_vec(),
            timestamp: Timestamp::EPOCH,
        };
        let shown = |record| serde_json::to_value(Message::of(record, &payload(record))).unwrap();
        let bytes = Record { key: Some(vec![255]), payload: vec![255], ..record.clone() };
        let shown_bytes = shown(&bytes);
        let shown = shown(&record);
        assert_eq!(shown["payload"], json!({"total": 12}));
        assert_eq!(shown["headers"]["tag"], json!(["a", "b"]));
        assert_eq!(shown["headers"]["raw"], json!({"base64": "AP8="}));
        assert_eq!((&shown["partition"], &shown["offset"]), (&json!(2), &json!(7)));
        assert_eq!((&shown["key"], &shown["topic"]), (&json!("order-1"), &json!("orders")));
        let shown = shown_bytes;
        assert_eq!(
            (&shown["key_base64"], &shown["payload_base64"]),
            (&json!("/w=="), &json!("/w=="))
        );
    }
}
