//! Who may ask: anybody on this machine, or whoever has a token.

use std::borrow::Cow;
use std::net::SocketAddr;

use helenus_model::{Failure, Kind};

/// The shortest token that is taken: shorter ones can be guessed.
pub const TOKEN_CHARACTERS_MIN: usize = 16;

/// Tokens that let their bearer in.
#[derive(Clone, Default)]
pub struct Tokens {
    known: Vec<String>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tokens", self.known.len())
    }
}

/// Why tokens cannot be used. None of them is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// A line is not a role and a token.
    #[error("token {number} is not written as a role and the token, as in 'viewer TOKEN'")]
    Malformed {
        /// Which, counted from 1.
        number: usize,
    },
    /// A role nobody knows.
    #[error("token {number} has the role '{role}'; there are viewer and operator")]
    UnknownRole {
        /// Which, counted from 1.
        number: usize,
        /// The role.
        role: String,
    },
    /// A token that can be guessed.
    #[error("token {number} has fewer than {TOKEN_CHARACTERS_MIN} characters")]
    TooShort {
        /// Which, counted from 1.
        number: usize,
    },
    /// There is none.
    #[error("there is no token where the configuration says they are")]
    None,
}

impl Failure for TokensError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "tokens"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("write each on a line, as in 'viewer TOKEN', where auth.tokens says they are".into())
    }
}

impl Tokens {
    /// Tokens as they are kept: a role and a token a line, or with commas between. Lines that begin
    /// with `#` are left out. Both roles, `viewer` and `operator`, may look; there is nothing more to
    /// be allowed yet.
    ///
    /// ```
    /// use helenus_server::Tokens;
    ///
    /// let tokens = Tokens::parse("viewer 0123456789abcdef").unwrap();
    /// assert!(tokens.let_in("0123456789abcdef") && !tokens.let_in("0123456789abcdeg"));
    /// ```
    pub fn parse(text: &str) -> Result<Self, TokensError> {
        let lines = text.split(['\n', ',']).map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut known = Vec::new();
        for (line, number) in lines.zip(1..) {
            let Some((role, token)) = line.split_once(char::is_whitespace) else {
                return Err(TokensError::Malformed { number });
            };
            if !["viewer", "operator"].contains(&role) {
                return Err(TokensError::UnknownRole { number, role: role.to_owned() });
            }
            let token = token.trim();
            if token.chars().count() < TOKEN_CHARACTERS_MIN {
                return Err(TokensError::TooShort { number });
            }
            known.push(token.to_owned());
        }
        if known.is_empty() {
            return Err(TokensError::None);
        }
        Ok(Tokens { known })
    }

    /// Whether somebody who shows `token` may come in. Takes as long for a token that is nearly right
    /// as for one that is not.
    pub fn let_in(&self, token: &str) -> bool {
        let same = self.known.iter().map(|known| is_same(known.as_bytes(), token.as_bytes()));
        // Every one is compared, so that the time does not tell which.
        same.fold(false, |found, same| found | same)
    }

    /// The same for the value of an `Authorization` header.
    pub(crate) fn let_in_bearer(&self, header: Option<&str>) -> bool {
        let bearer = header.and_then(|value| value.split_once(' '));
        bearer.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") & self.let_in(token.trim())
        })
    }
}

/// Compares without ending at the first difference.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    std::hint::black_box(differences) == 0 && one.len() == other.len()
}

/// An address that others could reach, and nothing that keeps them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} can be reached from other machines, and auth.tokens is not set")]
pub struct Unprotected {
    /// The address.
    pub address: SocketAddr,
}

impl Failure for Unprotected {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "unprotected"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("set auth.tokens, or listen on 127.0.0.1".into())
    }
}

/// Refuses to be reached from elsewhere without tokens.
pub fn check_address(address: SocketAddr, tokens: Option<&Tokens>) -> Result<(), Unprotected> {
    if address.ip().to_canonical().is_loopback() || tokens.is_some() {
        return Ok(());
    }
    Err(Unprotected { address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_of_a_token_comes_in_and_nobody_else() {
        let text = "# of the day\nviewer 0123456789abcdef\n\noperator  fedcba9876543210, \
                    viewer another-one-of-them";
        let tokens = Tokens::parse(text).unwrap();
        for token in ["0123456789abcdef", "fedcba9876543210", "another-one-of-them"] {
            assert!(tokens.let_in(token));
            assert!(tokens.let_in_bearer(Some(&format!("bearer {token}"))));
            assert!(!tokens.let_in_bearer(Some(&format!("Basic {token}"))));
            assert!(!tokens.let_in_bearer(Some(token)));
        }
        for token in ["", "0123456789abcde", "0123456789abcdef0", "viewer 0123456789abcdef"] {
            assert!(!tokens.let_in(token), "{token}");
        }
        assert!(!tokens.let_in_bearer(None));
        assert!(!format!("{tokens:?}").contains("0123"));
    }

    #[test]
    fn tokens_that_are_no_protection_are_refused_and_not_repeated() {
        let refused = |text| Tokens::parse(text).unwrap_err();
        assert_eq!(refused("\n# nothing\n"), TokensError::None);
        assert_eq!(refused("0123456789abcdef"), TokensError::Malformed { number: 1 });
        let short = "viewer 0123456789abcdef\nviewer short";
        assert_eq!(refused(short), TokensError::TooShort { number: 2 });
        let role = "root".to_owned();
        let unknown = refused("root 0123456789abcdef");
        assert_eq!(unknown, TokensError::UnknownRole { number: 1, role });
        assert!(!unknown.to_string().contains("0123"));
    }

    #[test]
    fn other_machines_are_let_near_only_where_tokens_are() {
        let tokens = Tokens::parse("viewer 0123456789abcdef").unwrap();
        for (address, is_local) in [
            ("127.0.0.1:8642", true),
            ("127.8.8.8:0", true),
            ("[::1]:8642", true),
            ("[::ffff:127.0.0.1]:8642", true),
            ("0.0.0.0:8642", false),
            ("[::]:8642", false),
            ("192.0.2.7:80", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(check_address(address, None).is_ok(), is_local, "{address}");
            assert_eq!(check_address(address, Some(&tokens)), Ok(()));
        }
    }
}
