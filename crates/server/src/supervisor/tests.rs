//! Tasks that fail, panic, hang and recover.

use std::sync::atomic::{AtomicU32, Ordering};

use helenus_model::{Backoff, SeededRandom, SystemClock};
use tokio::sync::Notify;

use super::*;

fn supervisor() -> Supervisor {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    let policy = Policy { backoff, steady_after: Duration::from_secs(3_600) };
    Supervisor::new(policy, Arc::new(SystemClock::new()), Arc::new(SeededRandom::new(3)))
}

fn fault(kind: Kind) -> Fault {
    Fault { kind, reason: "no ink".to_owned() }
}

async fn until_stopped(run: Run) -> Result<(), Fault> {
    run.is_well();
    run.stop.cancelled().await;
    Ok(())
}

fn report(register: &Register, name: &str) -> TaskReport {
    register.reports().into_iter().find(|report| report.name == name).unwrap()
}

#[tokio::test]
async fn a_task_that_fails_or_panics_starts_again_and_others_go_on() {
    let mut supervisor = supervisor();
    let (starts, steady_starts) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let recovered = Arc::new(Notify::new());
    let (counted, told) = (Arc::clone(&starts), Arc::clone(&recovered));
    supervisor.add(Task::new("frail", move |run| {
        let (starts, recovered) = (Arc::clone(&counted), Arc::clone(&told));
        async move {
            match starts.fetch_add(1, Ordering::SeqCst) {
                0 => Err(fault(Kind::Unavailable)),
                1 => panic!("out of paper"),
                2 => Ok(()),
                _ => {
                    run.is_well();
                    recovered.notify_one();
                    run.stop.cancelled().await;
                    Ok(())
                }
            }
        }
    }));
    let counted = Arc::clone(&steady_starts);
    supervisor.add(Task::new("steady", move |run| {
        counted.fetch_add(1, Ordering::SeqCst);
        until_stopped(run)
    }));
    let (register, stop) = (supervisor.register(), CancellationToken::new());
    let ending = async {
        recovered.notified().await;
        let frail = report(&register, "frail");
        assert_eq!((frail.state, frail.restarts, frail.reason), (TaskState::Running, 3, None));
        stop.cancel();
    };
    let (left, ()) = tokio::join!(supervisor.run(stop.clone(), Duration::from_secs(60)), ending);
    assert_eq!(left, [""; 0]);
    assert_eq!(steady_starts.load(Ordering::SeqCst), 1);
    assert!(register.reports().iter().all(|report| report.state == TaskState::Ended));
}

#[tokio::test]
async fn a_task_that_met_damage_is_given_up_with_its_reason() {
    let mut supervisor = supervisor();
    supervisor.add(Task::new("reader", |_| async { Err(fault(Kind::Corrupt)) }));
    supervisor.add(Task::new("steady", until_stopped));
    let (register, stop) = (supervisor.register(), CancellationToken::new());
    let ending = async {
        while report(&register, "reader").state != TaskState::GivenUp {
            tokio::task::yield_now().await;
        }
        assert_eq!(report(&register, "reader").reason.as_deref(), Some("no ink"));
        assert_eq!(report(&register, "steady").state, TaskState::Running);
        stop.cancel();
    };
    tokio::join!(supervisor.run(stop.clone(), Duration::from_secs(60)), ending);
    assert_eq!(report(&register, "reader").restarts, 0);
}

#[tokio::test]
async fn a_task_that_does_not_drain_is_named_and_ended() {
    struct Told(Arc<Notify>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let mut supervisor = supervisor();
    let dropped = Arc::new(Notify::new());
    let told = Arc::clone(&dropped);
    supervisor.add(Task::new("stubborn", move |_| {
        let told = Told(Arc::clone(&told));
        async move {
            let _told = told;
            std::future::pending().await
        }
    }));
    supervisor.add(Task::new("polite", until_stopped));
    let (register, stop) = (supervisor.register(), CancellationToken::new());
    let ending = async {
        while report(&register, "stubborn").state != TaskState::Running {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (left, ()) = tokio::join!(supervisor.run(stop.clone(), Duration::from_millis(50)), ending);
    assert_eq!(left, ["stubborn"]);
    dropped.notified().await;
}

#[tokio::test]
async fn a_task_that_waits_ends_at_once_when_told_to() {
    let mut supervisor = supervisor();
    supervisor.policy.backoff =
        Backoff { first: Duration::from_secs(3_600), longest: Duration::from_secs(3_600) };
    supervisor.add(Task::new("frail", |_| async { Err(fault(Kind::Unavailable)) }));
    let (register, stop) = (supervisor.register(), CancellationToken::new());
    let ending = async {
        while report(&register, "frail").state != TaskState::Waiting {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (left, ()) = tokio::join!(supervisor.run(stop.clone(), Duration::from_secs(60)), ending);
    assert_eq!(left, [""; 0]);
}
