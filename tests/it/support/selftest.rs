//! The support's own tests. Each of them is also the shortest example of what it shows.

mod monitor;
mod proxy;
mod scripted;
mod server;

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use redis::Value;

use super::children::{self, Child};
use super::{PATIENCE, Server, eventually, logs, resp, within};

const A_MOMENT: Duration = Duration::from_millis(5);

/// Stands in for the tested client: commands out, replies in, and nothing clever.
struct Plain<S = TcpStream>(S);

impl Plain {
    fn to(addr: SocketAddr) -> Plain {
        let stream = TcpStream::connect(addr).expect("connects");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("takes a timeout");
        Plain(stream)
    }

    /// Nothing has come for a moment: a timeout, and not the end of the connection.
    fn hears_nothing(&mut self) -> bool {
        self.0
            .set_read_timeout(Some(A_MOMENT))
            .expect("takes a timeout");
        let result = self.0.read(&mut [0]);
        self.0
            .set_read_timeout(Some(PATIENCE))
            .expect("takes a timeout");
        result.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

impl<S: Read + Write> Plain<S> {
    fn send(&mut self, words: &[&str]) {
        self.0.write_all(&resp::pack(words)).expect("sends");
    }

    fn reply(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        while resp::reply_len(&bytes).is_none() {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            bytes.extend(byte);
        }
        String::from_utf8(bytes).map_err(Error::other)
    }

    fn call(&mut self, words: &[&str]) -> String {
        self.send(words);
        self.reply().expect("a reply")
    }

    fn ends_with(&mut self) -> ErrorKind {
        self.reply().expect_err("the end of the connection").kind()
    }
}

mod waiting {
    use super::*;

    #[test]
    #[should_panic(expected = "the moon is blue: not so within 5ms")]
    fn a_condition_that_never_holds_fails_the_test_by_its_name() {
        eventually("the moon is blue", A_MOMENT, || false);
    }

    #[test]
    fn bounded_work_gives_its_value() {
        assert_eq!(within(PATIENCE, || 7), 7);
    }

    #[test]
    #[should_panic(expected = "its own words")]
    fn a_panic_of_bounded_work_is_passed_on() {
        within(PATIENCE, || panic!("its own words"));
    }

    #[test]
    #[should_panic(expected = "not back within 5ms")]
    fn work_that_does_not_end_fails_the_test() {
        let (_never, forever) = channel::<()>();
        within(A_MOMENT, move || forever.recv().is_ok());
    }
}

mod log {
    use super::*;

    #[test]
    fn what_is_logged_can_be_searched_by_text_and_by_thread() {
        let mark = logs::mark();
        ::log::debug!(target: "somewhere", "selftest says {}", 42);
        within(PATIENCE, || ::log::warn!("selftest says 43"));
        assert!(logs::any_containing(mark, "selftest says 43"));
        assert_eq!(logs::containing(mark, "selftest says").len(), 2);
        assert!(logs::since(mark).len() >= 2);
        let own = logs::of_this_thread(mark);
        assert_eq!((own.len(), own[0].text.as_str()), (1, "selftest says 42"));
        assert_eq!(
            (own[0].level, own[0].target.as_str()),
            (::log::Level::Debug, "somewhere")
        );
        assert!(!logs::any_containing(logs::mark(), "selftest says"));
    }
}

mod children_of_the_test {
    use super::*;

    const ROLE: &str = "support::selftest::children_of_the_test::repeats_what_it_hears";

    #[test]
    fn a_child_hears_and_is_heard_and_can_be_paused() {
        let mut child = Child::run(ROLE, &[("GREETING", "hello")]);
        assert_eq!(child.expect_line(PATIENCE), "hello");
        child.stop();
        child.send("one");
        child.cont();
        assert_eq!(child.expect_line(PATIENCE), "one");
        child.send("");
        assert!(child.wait(PATIENCE).success());
        assert!(!Path::new(&format!("/proc/{}", child.id())).exists());
    }

    #[test]
    #[should_panic(expected = "is there a test of that name")]
    fn a_role_that_is_no_test_is_told() {
        Child::run("no::such::role", &[]).expect_line(PATIENCE);
    }

    #[test]
    fn repeats_what_it_hears() {
        let Some(parent) = children::parent() else {
            return;
        };
        parent.say(&parent.var("GREETING"));
        while let Some(line) = parent.hear().filter(|line| !line.is_empty()) {
            parent.say(&line);
        }
    }
}

#[test]
fn a_value_of_the_server_is_that_of_the_redis_crate() {
    let server = Server::start();
    assert_eq!(server.cmd(&["EXISTS", "k"]), Value::Int(0));
}
