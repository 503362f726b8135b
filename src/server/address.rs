//! Where the server is and as whom to enter, read from a URL.

use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::{Config, Error};

/// A server's URL, taken apart. `Debug` shows no password.
pub(crate) struct Address {
    place: Place,
    username: Option<String>,
    password: Option<String>,
    database: i64,
}

#[derive(Debug)]
pub(super) enum Place {
    Tcp(String, u16),
    #[cfg(unix)]
    Unix(PathBuf),
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        // The message never repeats the URL: there may be a password in it.
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        match scheme {
            "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => {}
            "" => {
                return Err(Error::config(Config::Url {
                    why: "it has no scheme; a URL looks like redis://127.0.0.1:6379".to_owned(),
                }));
            }
            other => {
                return Err(Error::config(Config::Scheme {
                    scheme: other.chars().take(32).collect(),
                }));
            }
        }
        let info: ConnectionInfo = url.into_connection_info().map_err(|error| {
            Error::config(Config::Url {
                // The crate's texts name the part that is wrong, without its value.
                why: error.detail().map_or_else(
                    || error.to_string().to_lowercase(),
                    |_| "a part of it is not valid".to_owned(),
                ),
            })
        })?;
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Place::Tcp(host.clone(), *port),
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            _ => {
                return Err(Error::config(Config::Scheme {
                    scheme: scheme.to_owned(),
                }));
            }
        };
        let settings = info.redis_settings();
        Ok(Self {
            place,
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            database: settings.db(),
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

    pub(super) const fn database(&self) -> i64 {
        self.database
    }
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
            "hunter2://x",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(error.is_config(), "{url}");
            let shown = error.to_string();
            assert!(
                !shown.contains("hunter2") || url.starts_with("hunter2"),
                "{shown}"
            );
        }
    }
}
