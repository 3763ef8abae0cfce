//! The network part of a backend URL: `//user:password@host:port,host:port/path?tls=true`.
//!
//! Written by hand because a list of hosts is not a URL to any URL library.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use secrecy::SecretString;

/// One address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name or address, an IPv6 one without brackets.
    pub name: String,
    /// Port.
    pub port: u16,
}

/// Where a service is and how to log in to it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// At least one.
    pub hosts: Vec<Host>,
    /// User to log in as.
    pub username: Option<String>,
    /// Password to log in with.
    pub password: Option<SecretString>,
    /// Keyspace, database or path, without its slash in front.
    pub path: Option<String>,
    /// Whether the connection is encrypted (`?tls=true`).
    pub tls: bool,
    /// Certificate authorities to trust beside the system's (`?ca_file=PATH`, PEM).
    pub ca_file: Option<PathBuf>,
}

impl Endpoint {
    pub(super) fn parse(rest: &str, default_port: u16) -> Result<Self, String> {
        let Some(rest) = rest.strip_prefix("//") else {
            return Err("expected // after the scheme, as in cassandra://host/keyspace".to_owned());
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, (!path.is_empty()).then(|| path.to_owned())),
            None => (rest, None),
        };
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let hosts = hosts.split(',').map(|host| parse_host(host, default_port));
        let mut endpoint = Endpoint {
            hosts: hosts.collect::<Result<Vec<Host>, String>>()?,
            username: None,
            password: None,
            path,
            tls: false,
            ca_file: None,
        };
        if let Some(login) = login {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (login, None),
            };
            endpoint.username = Some(percent_decode(user)?);
            endpoint.password = password.map(percent_decode).transpose()?.map(SecretString::from);
        }
        if let Some(query) = query {
            endpoint.read_query(query)?;
        }
        Ok(endpoint)
    }

    fn read_query(&mut self, query: &str) -> Result<(), String> {
        for pair in query.split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("tls", "true") => self.tls = true,
                ("tls", "false") => self.tls = false,
                ("tls", other) => return Err(format!("tls is true or false, not '{other}'")),
                ("ca_file", path) => self.ca_file = Some(PathBuf::from(percent_decode(path)?)),
                (key, _) => {
                    return Err(format!("unknown parameter '{key}'; tls and ca_file exist"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn with_tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Takes user and password from elsewhere; what the URL says stands where they are absent.
    pub fn set_credentials(&mut self, username: Option<String>, password: Option<SecretString>) {
        self.username = username.or(self.username.take());
        self.password = password.or(self.password.take());
    }

    /// `host:port` of every host.
    pub fn addresses(&self) -> Vec<String> {
        self.hosts.iter().map(Host::to_string).collect()
    }
}

fn parse_host(text: &str, default_port: u16) -> Result<Host, String> {
    let (name, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let Some((name, port)) = bracketed.split_once(']') else {
                return Err(format!("'{text}' lacks its closing bracket"));
            };
            (name, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if name.is_empty() {
        return Err("a host name is missing".to_owned());
    }
    let port = match port {
        Some(port) => port.parse().map_err(|_| format!("'{port}' is not a port"))?,
        None => default_port,
    };
    Ok(Host { name: name.to_owned(), port })
}

fn percent_decode(text: &str) -> Result<String, String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err("a % must be followed by two hexadecimal digits".to_owned());
        };
        decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
    }
    String::from_utf8(decoded).map_err(|_| "a %-encoded part is not UTF-8".to_owned())
}

/// What may be shown of a URL that could not be parsed: everything but what stands between the
/// first colon after `//` and the last `@`.
///
/// ```
/// let shown = helenus_model::backend::without_password("kafka://ann:secret@host:99999");
/// assert_eq!(shown, "kafka://ann:***@host:99999");
/// ```
#[must_use]
pub fn without_password(text: &str) -> String {
    let masked = || {
        let (scheme, rest) = text.split_once("//")?;
        let (login, rest) = rest.rsplit_once('@')?;
        let (user, _) = login.split_once(':')?;
        Some(format!("{scheme}//{user}:***@{rest}"))
    };
    masked().unwrap_or_else(|| text.to_owned())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("//")?;
        if let Some(username) = &self.username {
            f.write_str(username)?;
            if self.password.is_some() {
                f.write_str(":***")?;
            }
            f.write_char('@')?;
        }
        f.write_str(&self.addresses().join(","))?;
        if let Some(path) = &self.path {
            write!(f, "/{path}")?;
        }
        if self.tls {
            f.write_str("?tls=true")?;
        }
        Ok(())
    }
}
