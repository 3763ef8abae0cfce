//! Balances of accounts as a table that follows the events: each is in it once, whatever crashes.
//!
//! `cargo run --example balances -- sqlite:accounts.db`; run it again and the balance grows.

#![allow(clippy::print_stdout, reason = "an example shows what it did")]

use helenus::interop::rusqlite::{Connection, Output, Projection};
use helenus::store::{Append, EventStore, SubscriptionName};
use helenus::subscription::BoxError;
use helenus::{Expected, NewEvent, Payload, Ports, RecordedEvent, Store, StreamId};

struct Balances;

impl Projection for Balances {
    fn name(&self) -> SubscriptionName {
        "balances".parse().expect("a plain name")
    }

    /// Counted up when the code below changes; `rebuild` then fills new tables beside the old ones.
    fn version(&self) -> String {
        "1".to_owned()
    }

    fn create(&self, output: &Output<'_>) -> Result<(), BoxError> {
        let table = output.table("balances");
        let sql = format!("CREATE TABLE {table} (account TEXT PRIMARY KEY, cents INTEGER)");
        Ok(output.connection().execute_batch(&sql)?)
    }

    fn apply(&self, output: &Output<'_>, event: &RecordedEvent) -> Result<(), BoxError> {
        let cents: i64 = event.payload.text().unwrap_or_default().parse()?;
        let sql = format!(
            "INSERT INTO {} VALUES (?1, ?2) ON CONFLICT DO UPDATE SET cents = cents + excluded.cents",
            output.table("balances")
        );
        output.connection().prepare_cached(&sql)?.execute((event.stream_id.as_str(), cents))?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:accounts.db".to_owned());
    let store = Store::open(&url.parse()?, Ports::system()).await?;
    let booked = NewEvent::new("account.booked", Payload::json(&500.into()));
    store.append(Append::new(StreamId::new("account-1")?, Expected::Any, vec![booked])).await?;

    let done = store.projector(Balances)?.catch_up(&Default::default()).await?;
    println!("{} events applied", done.handled);
    store.close().await;
    // Any SQLite tool reads it: SELECT * FROM balances.
    let file = Connection::open(url.trim_start_matches("sqlite:"))?;
    let query = "SELECT cents FROM balances WHERE account = 'account-1'";
    println!("account-1 has {} cents", file.query_row(query, [], |row| row.get::<_, i64>(0))?);
    Ok(())
}
