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
/// Opcode STARTUP with the one option that must be there.
const CQL_STARTUP: &[u8] = b"\x04\0\0\0\x01\0\0\0\x16\0\x01\0\x0bCQL_VERSION\0\x053.0.0";
const CQL_OPCODE_READY: u8 = 2;
const CQL_OPCODE_RESULT: u8 = 8;
const CQL_ONE: u16 = 1;
const CQL_ALL: u16 = 5;
/// Cassandra's own keyspace of three copies.
const READ_THREE_COPIES: &str = "SELECT status FROM system_distributed.view_build_status \
                                 WHERE keyspace_name = 'none' AND view_name = 'none'";
const READ_SCHEMA_VERSION: &str = "SELECT schema_version FROM system.local";
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

/// What a node of a cluster says its schema's version is; nothing while it cannot read through all of
/// the others, which it does not know yet when it first answers.
pub(super) fn schema_of_whole(node: &Node) -> Option<Vec<u8>> {
    let mut stream = connect(node)?;
    cql(&mut stream, CQL_STARTUP, CQL_OPCODE_READY)?;
    cql(&mut stream, &query(READ_THREE_COPIES, CQL_ALL), CQL_OPCODE_RESULT)?;
    cql(&mut stream, &query(READ_SCHEMA_VERSION, CQL_ONE), CQL_OPCODE_RESULT)
}

/// A QUERY frame without values.
fn query(text: &str, consistency: u16) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = vec![4, 0, 0, 0, 7];
    frame.extend(length(4 + text.len() + 3));
    frame.extend(length(text.len()));
    frame.extend(text.as_bytes());
    frame.extend(consistency.to_be_bytes());
    frame.push(0);
    frame
}

/// Sends a frame and returns the body of the answer, if it is of the wanted kind.
fn cql(stream: &mut TcpStream, frame: &[u8], opcode: u8) -> Option<Vec<u8>> {
    let [_, _, _, _, answered, length @ ..] = exchange::<9>(stream, frame)?;
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?];
    stream.read_exact(&mut body).ok()?;
    (answered == opcode).then_some(body)
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
