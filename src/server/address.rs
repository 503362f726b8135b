//! Where the server is and as whom to enter, read from a URL.

use std::fmt;
#[cfg(unix)]
use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::{Config, Error};

/// A server's URL, taken apart. `Debug` shows no password.
pub(crate) struct Address {
    place: Place,
    username: Option<String>,
    password: Option<String>,
    database: u64,
}

#[derive(Debug)]
pub(super) enum Place {
    Tcp(String, u16),
    #[cfg(unix)]
    Unix(PathBuf),
}

impl Address {
    /// Reads a URL. The messages never repeat it: there may be a password in it.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let unusable = |why: String| Error::config(Config::Url { why });
        let url = url.trim();
        // Only what can be a scheme is named in a message: anything else before the `://` may
        // be a user with a password.
        let Some((scheme, rest)) = url.split_once("://").filter(|(name, _)| is_scheme(name)) else {
            return Err(unusable(
                "it does not begin with a scheme and `://`, as redis://127.0.0.1:6379 does"
                    .to_owned(),
            ));
        };
        let scheme = scheme.to_ascii_lowercase();
        let parameters: &[&str] = match scheme.as_str() {
            "redis" | "valkey" => &["protocol"],
            "unix" | "redis+unix" | "valkey+unix" => &["protocol", "db", "user", "pass"],
            _ => {
                return Err(Error::config(Config::Scheme { scheme }));
            }
        };
        // A password with a `#` in it would be cut off there, and the rest taken for a host.
        if rest.contains('#') {
            return Err(unusable(format!("there is a `#` in it ({URL_HINT})")));
        }
        // The crate passes over what it does not know, and a wish would be lost in silence.
        if parameters_of(rest).any(|name| !parameters.contains(&name)) {
            return Err(unusable(format!(
                "there is an unknown parameter behind its `?`; {scheme}:// knows {}, and the \
                 database is {}",
                parameters.join(", "),
                if parameters.contains(&"db") {
                    "`db`"
                } else {
                    "the path, as in HOST/3"
                }
            )));
        }
        let info: ConnectionInfo = url.into_connection_info().map_err(|error| {
            // The crate's texts name the part that is wrong; what follows is its value.
            let text = error.to_string().to_lowercase();
            let part = text.split(" - ").next().unwrap_or_default();
            unusable(format!("{part} ({URL_HINT})"))
        })?;
        let database = u64::try_from(info.redis_settings().db())
            .map_err(|_| unusable("its database number is below 0".to_owned()))?;
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Place::Tcp(host.clone(), *port),
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            _ => {
                return Err(Error::config(Config::Scheme { scheme }));
            }
        };
        let settings = info.redis_settings();
        Ok(Self {
            place,
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            database,
        })
    }

    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    pub(super) const fn database(&self) -> u64 {
        self.database
    }
}

const URL_HINT: &str = "in a user name or password write # / ? @ as %23 %2F %3F %40; a port is \
                        at most 65535";

/// A word of a few letters, as RFC 3986 allows them.
fn is_scheme(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    name.len() <= 16
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(allowed)
}

/// The names behind the question mark.
fn parameters_of(rest: &str) -> impl Iterator<Item = &str> {
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    query
        .split('&')
        .filter_map(|pair| pair.split('=').next())
        .filter(|name| !name.is_empty())
}

/// The place alone: what messages and logs name a server by.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Tcp(host, port) => write!(f, "{host}:{port}"),
            #[cfg(unix)]
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("place", &self.place)
            .field("username", &self.username)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_and_its_password_is_not_shown() {
        let address = Address::parse("redis://ann:s%2Fcret@example.org:7000/3").unwrap();
        assert_eq!(address.to_string(), "example.org:7000");
        assert_eq!(address.username(), Some("ann"));
        assert_eq!(address.password(), Some("s/cret"));
        assert_eq!(address.database(), 3);
        assert!(!format!("{address:?}").contains("cret"));
    }

    #[test]
    fn places_are_shown_as_people_write_them() {
        for (url, shown) in [
            ("redis://[::1]:1", "[::1]:1"),
            ("redis://localhost", "localhost:6379"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
            (" REDIS://localhost ", "localhost:6379"),
            ("redis+unix:///run/redis.sock?db=1", "/run/redis.sock"),
        ] {
            assert_eq!(Address::parse(url).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_without_its_password() {
        for url in [
            "",
            "127.0.0.1:6379",
            "redis://",
            "redis://:hunter2@host:99999",
            "redis://:hunter2@host/notanumber",
            "redis://:hunter2@host/?protocol=hunter2",
            "rediss://:hunter2@host",
            "http://:hunter2@host",
            "ann:hunter2@db.example.org://0",
            "PASSWORD=hunter2 redis://host",
            "redis://host/?hunter2",
            "redis:/host",
            "redis://:hunter2#x@host",
            "redis://me:123#hunter2@host",
            "redis://:hunter2@host/?db=1",
            "unix:///run/redis.sock?password=hunter2",
            "redis://:hunter2@host/-1",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(error.is_config(), "{url}");
            let shown = error.to_string();
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
