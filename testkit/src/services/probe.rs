//! Does it really answer? One small exchange in each service's own protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::Service;
use super::state::Node;

/// An answer that takes longer is none: services are on this machine.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Protocol version 4, stream 0, opcode OPTIONS, no body (native_protocol_v4.spec, section 2).
const CQL_OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
const CQL_OPCODE_SUPPORTED: u8 = 6;
/// `ApiVersions` version 0: length, API key 18, version 0, correlation id, null client id.
const KAFKA_API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 255, 255];
/// The start-up packet of protocol 3.0 for user `postgres`.
const POSTGRES_STARTUP: &[u8] = b"\x00\x00\x00\x17\x00\x03\x00\x00user\x00postgres\x00\x00";

/// Whether the node answers as its service should. Behind TLS an open port has to do.
pub(super) fn answers(service: Service, node: &Node, tls: bool) -> bool {
    let Some(mut stream) = connect(node) else { return false };
    if tls {
        return true;
    }
    match service {
        Service::Cassandra | Service::Cassandra41 | Service::Cassandra40 | Service::Cluster3 => {
            exchange::<9>(&mut stream, &CQL_OPTIONS)
                .is_some_and(|answer| answer[4] == CQL_OPCODE_SUPPORTED)
        }
        Service::Kafka => exchange::<10>(&mut stream, &KAFKA_API_VERSIONS)
            .is_some_and(|answer| answer[4..10] == [0, 0, 0, 7, 0, 0]),
        Service::Registry => {
            let request = format!(
                "GET /apis/ccompat/v7/subjects HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                node.host
            );
            exchange::<12>(&mut stream, request.as_bytes())
                .is_some_and(|answer| answer.ends_with(b" 200"))
        }
        Service::Postgres => {
            exchange::<1>(&mut stream, POSTGRES_STARTUP).is_some_and(|answer| answer == *b"R")
        }
        Service::Redis => {
            exchange::<5>(&mut stream, b"PING\r\n").is_some_and(|answer| answer == *b"+PONG")
        }
    }
}

fn connect(node: &Node) -> Option<TcpStream> {
    let address = SocketAddr::new(node.host.parse().ok()?, node.port);
    let stream = TcpStream::connect_timeout(&address, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    Some(stream)
}

/// Sends a request and reads the first `N` bytes of the answer.
fn exchange<const N: usize>(stream: &mut TcpStream, request: &[u8]) -> Option<[u8; N]> {
    stream.write_all(request).ok()?;
    let mut answer = [0; N];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}
