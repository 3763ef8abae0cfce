//! Ports that nobody uses: the preferred number, or the next one that can be bound.
//!
//! A bound port has to be given up before the service can bind it. Until the service listens, a
//! second checkout on this machine could pick the same number, so a claim also holds a socket of
//! that number's name in the abstract namespace: it needs no file, no permission, and it goes
//! away with the process.

use std::collections::BTreeMap;
use std::net::TcpListener;

use super::{Error, Result, spec::LOCALHOST};

/// How far from the preferred number to look.
const SEARCH: u16 = 400;

/// A port that is ours to hand to a service for as long as this lives.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) port: u16,
    _name: hold::Name,
}

/// Port numbers by role.
pub(super) type Ports = BTreeMap<String, u16>;

/// Claims a port per role, each free on all hosts (JMX: on 127.0.0.1, where it always listens).
pub(super) fn claim_all(
    roles: impl IntoIterator<Item = (&'static str, u16)>,
    hosts: &[&str],
) -> Result<(Ports, Vec<Claim>)> {
    let mut ports = Ports::new();
    let mut claims = Vec::new();
    for (role, preferred) in roles {
        let hosts = if role.starts_with("jmx") { &[LOCALHOST] } else { hosts };
        let claim = claim(preferred, hosts)?;
        ports.insert(role.to_owned(), claim.port);
        claims.push(claim);
    }
    Ok((ports, claims))
}

/// Claims the first port from `preferred` on that is free on all `hosts`.
fn claim(preferred: u16, hosts: &[&str]) -> Result<Claim> {
    let last = preferred.saturating_add(SEARCH);
    for port in preferred..=last {
        let Some(name) = hold::name(port) else { continue };
        if hosts.iter().all(|host| TcpListener::bind((*host, port)).is_ok()) {
            return Ok(Claim { port, _name: name });
        }
    }
    Err(Error::new(format!("no free port on {} from {preferred} to {last}", hosts.join(", "))))
}

/// The name of a port, held by one process at a time.
#[cfg(target_os = "linux")]
mod hold {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    pub(super) type Name = UnixListener;

    pub(super) fn name(port: u16) -> Option<Name> {
        let address = SocketAddr::from_abstract_name(format!("helenus-port-{port}")).ok()?;
        UnixListener::bind_addr(&address).ok()
    }
}

/// Elsewhere nothing is started, but `cargo xtask test --embedded` should build.
#[cfg(not(target_os = "linux"))]
mod hold {
    pub(super) type Name = ();

    pub(super) fn name(_port: u16) -> Option<Name> {
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_busy_port_is_passed_over() {
        let busy = TcpListener::bind((LOCALHOST, 0)).expect("some port");
        let port = busy.local_addr().expect("bound").port();
        let claim = claim(port, &[LOCALHOST]).expect("there is another");
        assert!(claim.port > port);
    }

    #[test]
    fn a_port_busy_on_one_of_three_hosts_is_busy() {
        let hosts = [LOCALHOST, "127.0.0.2", "127.0.0.3"];
        let busy = TcpListener::bind(("127.0.0.3", 0)).expect("some port");
        let port = busy.local_addr().expect("bound").port();
        assert!(claim(port, &hosts).expect("there is another").port > port);
    }

    #[test]
    fn a_claimed_port_is_not_claimed_again_until_released() {
        let first = claim(29_321, &[LOCALHOST]).expect("a port");
        let second = claim(first.port, &[LOCALHOST]).expect("another");
        assert_ne!(first.port, second.port);
        let port = first.port;
        drop(first);
        // A program that another test starts holds what is open here until it runs.
        let mut tries = 0;
        while claim(port, &[LOCALHOST]).expect("a port").port != port {
            assert!(tries < 500, "it is free again");
            tries += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
