//! `leasehold run`: take the lease, run a command, give the lease back.
//!
//! Three processes: this one holds the lease; the [`supervisor`] leads the command's group and
//! outlives this one for as long as it takes to end it; the command. Here, three threads beside
//! those of the library: this one waits for the command, [`guard`] watches the lease, and
//! [`signals`] passes signals on.

mod channel;
mod clock;
mod group;
mod guard;
mod ignored;
mod options;
pub(crate) mod shim;
mod signals;
pub(crate) mod supervisor;
mod terminal;
mod tree;

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ArgMatches;
use leasehold::{Client, Lease, Lock};
use rustix::process::{Pid, Signal};
use signal_hook::consts::SIGCHLD;

use self::channel::Listener;
use self::group::{Event, Group};
use self::guard::Guard;
use self::options::{Options, Wait};
use self::signals::Receiver;
use self::terminal::Terminal;
use crate::cli;
use crate::duration::show;
use crate::exit::{Code, Failure, chain};
use crate::output::{Level, say};

/// A stop so soon after the last is the same one once more.
const AT_ONCE: Duration = Duration::from_millis(500);

pub(crate) fn main(matches: &ArgMatches) -> Result<Code, Failure> {
    let options = Options::of(matches);
    Terminal::prepare();
    // Where it was ignored when we were started, the kernel would wait for our children itself, and
    // their codes would be lost. A handler undoes that, for the command as well.
    let _ = signal_hook::flag::register(SIGCHLD, Arc::default());
    let receiver = Receiver::start()?;
    let client = cli::client(matches)?;
    let lock = lock(&client, &options)?;
    let Some(lease) = acquire(&client, &lock, &options, &receiver)? else {
        let signal = receiver.ended_by().unwrap_or(0);
        return Ok(Code::of_signal(signal));
    };
    options.tell(format_args!(
        "took {:?} (fingerprint {}), {} left before the deadline",
        options.key,
        lease.token().fingerprint(),
        show(lease.remaining())
    ));
    let end = run(&lease, &options, &receiver);
    if end.as_ref().is_ok_and(|end| end.may_run_on) {
        if Level::Normal <= options.level {
            say("not all of the command could be ended (another user's?): it may run on");
        }
        // The lock is not handed on before its time is over.
        drop(lease.detach());
        return end.map(|end| end.code);
    }
    match lease.release() {
        Ok(()) => options.tell(format_args!("released {:?}", options.key)),
        Err(error) if Level::Normal <= options.level => say(chain(&error)),
        Err(_) => {}
    }
    let end = end?;
    if let Some(key) = end.key {
        Terminal::pass_on(key);
    }
    Ok(end.code)
}

/// How the command came to its end.
struct End {
    code: Code,
    /// It was killed, and some of its group were still dying when the lease ran out.
    may_run_on: bool,
    /// The signal of a key at the terminal that has ended it.
    key: Option<i32>,
}

fn lock(client: &Client, options: &Options) -> Result<Lock, Failure> {
    let mut lock = client
        .lock(options.key.as_str())
        .ttl(options.ttl)
        .danger(options.danger);
    if let Some(max_hold) = options.max_hold {
        lock = lock.max_hold(max_hold);
    }
    if let Some(label) = &options.label {
        lock = lock.label(label);
    }
    if options.fenced {
        lock = lock.fenced();
    }
    lock.build().map_err(|error| {
        let mut failure = Failure::from(error);
        // What the library offers there is no option here.
        failure.text = failure
            .text
            .replace("say `without_renewal`", "give a longer --ttl");
        failure
    })
}

/// `None` if a signal has ended the wait.
fn acquire(
    client: &Client,
    lock: &Lock,
    options: &Options,
    receiver: &Receiver,
) -> Result<Option<Lease>, Failure> {
    let deadline = match options.wait {
        Wait::Until(wait) => Instant::now().checked_add(wait),
        Wait::Forever => None,
    };
    match lock.acquire_cancellable(deadline, receiver.canceller()) {
        Err(error) if error.is_timeout() => {
            // A courtesy: whoever reads it at night wants to know who.
            let holder = match client.inspect(&options.key) {
                // It would be held for ever.
                Err(error) if error.is_wrong_type() => return Err(error.into()),
                holder => holder.ok().flatten(),
            };
            let label = holder
                .as_ref()
                .and_then(|holder| holder.label().map(str::to_owned));
            let by = label.map_or(String::new(), |label| format!(" ({label})"));
            let left = holder.and_then(|holder| holder.remaining());
            let left = left.map_or(String::new(), |left| {
                format!(", its lease ends in {} unless renewed", show(left))
            });
            let text = format!("{:?} is held by another{by}{left}", options.key);
            // Where busy is no failure, cron is not to send a mail for it.
            if options.busy == Code::OK && options.level != Level::Verbose {
                return Err(Failure::new(options.busy, ""));
            }
            Err(Failure::new(options.busy, text))
        }
        // The attempt that was under way when a signal came may end as any other.
        Err(error) if receiver.ended_by().is_some() => {
            if Level::Normal <= options.level {
                say(chain(&error));
            }
            Ok(None)
        }
        result => Ok(result?),
    }
}

fn run(lease: &Lease, options: &Options, receiver: &Receiver) -> Result<End, Failure> {
    let cannot = |what: &'static str| {
        move |error: std::io::Error| {
            Failure::new(Code::UNAVAILABLE, format!("cannot {what}: {error}"))
        }
    };
    // What its supervisor leaves behind comes to us.
    tree::adopt_orphans();
    let listener = Listener::open().map_err(cannot("open a socket"))?;
    let (dead_by, times) = mpsc::channel();
    let group = Arc::new(start(lease, options, &listener)?);
    if let Err(signal) = receiver.hand_to(&group) {
        group.signal(Signal::KILL);
        group.wait(|| true);
        let code = Code::of_signal(signal);
        return Ok(End {
            code,
            may_run_on: !group.dies_within(lease.remaining()),
            key: None,
        });
    }
    options.tell(format_args!(
        "started the command in process group {}",
        group.leader().as_raw_nonzero()
    ));
    let terminal = Terminal::default();
    // Before the supervisor hears the first word, and with it starts the command.
    terminal.give(group.leader());
    let guard = Guard {
        key: options.key.clone(),
        level: options.level,
        watch: lease.watch(),
        group: Arc::clone(&group),
        margin: options.margin(),
        on_danger: options.on_danger,
        danger_exec: options.danger_exec.clone(),
        executed: None,
        dead_by,
    };
    let of_channel = Arc::clone(&group);
    let spawned = thread::Builder::new()
        .name("leasehold-guard".to_owned())
        .spawn(move || guard.run())
        .and_then(|guard| {
            thread::Builder::new()
                .name("leasehold-tell".to_owned())
                .spawn(move || speak(listener, &of_channel, &times))
                .map(|_| guard)
        });
    let guard = match spawned {
        Ok(guard) => guard,
        Err(error) => {
            group.signal(Signal::KILL);
            group.wait(|| true);
            terminal.take_back();
            return Err(cannot("start a thread")(error));
        }
    };
    let is_time_up = || lease.remaining() <= options.margin();
    let mut stopped: Option<Instant> = None;
    let event = loop {
        match group.wait(is_time_up) {
            Event::Suspended if Terminal::is_orphaned() => {
                // Nobody could let us go on, so the command goes on at once. One that is stopped
                // again for the same reason, a read from a terminal that it does not have, would
                // be so for ever.
                if stopped.is_some_and(|last| last.elapsed() < AT_ONCE) {
                    group.signal(Signal::HUP);
                }
                group.signal(Signal::CONT);
                stopped = Some(Instant::now());
            }
            Event::Suspended => suspend(lease, options, &group, &terminal),
            event => break event,
        }
    };
    if group.was_terminated() || group.was_killed() {
        // It acts first and says so afterwards.
        let _ = guard.join();
    }
    let code = code(event, &group, lease, options);
    options.tell(format_args!("the command has ended with {}", code.0));
    let key = match event {
        Event::Killed(signal) if terminal.take_back() => Some(signal),
        _ => {
            terminal.take_back();
            None
        }
    };
    let key = key.filter(|signal| Group::KEYS.contains(signal));
    let was_killed = group.was_killed()
        || matches!(event, Event::Killed(signal) if !Group::KEYS.contains(&signal));
    let may_run_on =
        (was_killed || group.was_terminated()) && !group.dies_within(lease.remaining());
    Ok(End {
        code,
        may_run_on,
        key,
    })
}

/// Tells the supervisor its times, and hears on another thread when the command was stopped.
fn speak(listener: Listener, group: &Arc<Group>, times: &mpsc::Receiver<Duration>) {
    let Ok(stream) = listener.accept(group.leader()) else {
        return;
    };
    let heard = Arc::clone(group);
    let Ok(from) = stream.try_clone() else {
        return;
    };
    let hearing = thread::Builder::new().name("leasehold-hear".to_owned());
    let hearing = hearing.spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            match line.as_str() {
                channel::STOPPED => heard.note_stop(),
                channel::LATE => heard.note_late(),
                _ => {}
            }
        }
    });
    if hearing.is_ok() {
        channel::tell(&stream, times);
    }
}

/// Starts the supervisor. From the main thread: its death is what the supervisor is told of.
fn start(lease: &Lease, options: &Options, listener: &Listener) -> Result<Group, Failure> {
    let deadline = SystemTime::now()
        .checked_add(lease.remaining())
        .and_then(|deadline| deadline.duration_since(UNIX_EPOCH).ok());
    let deadline = deadline.map_or(0, |deadline| deadline.as_millis());
    let mut command = Command::new(ourselves());
    command
        .arg0("leasehold")
        .arg(supervisor::FLAG)
        .arg(std::process::id().to_string())
        .arg(listener.name())
        .arg(if options.level == Level::Quiet {
            "quiet"
        } else {
            "loud"
        })
        .args(&options.command)
        .env("LEASEHOLD_KEY", &options.key)
        .env("LEASEHOLD_DEADLINE_MS", deadline.to_string())
        .env_remove("LEASEHOLD_TOKEN")
        .env_remove("LEASEHOLD_FENCE")
        .process_group(0);
    if let Some(fence) = lease.fence() {
        command.env("LEASEHOLD_FENCE", fence.to_string());
    }
    if options.export_token {
        command.env("LEASEHOLD_TOKEN", lease.token().expose());
    }
    let child = command.spawn().map_err(|error| {
        let code = match error.kind() {
            // Too long a command line is the user's.
            ErrorKind::ArgumentListTooLong => Code::CANNOT_RUN,
            _ => Code::UNAVAILABLE,
        };
        Failure::new(code, format!("cannot start the command: {error}"))
    })?;
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    leader.map(Group::of).ok_or_else(|| {
        Failure::new(
            Code::UNAVAILABLE,
            "the system gave the command no process number",
        )
    })
}

/// This program, also when its file has been replaced meanwhile.
fn ourselves() -> std::path::PathBuf {
    let link = std::path::Path::new("/proc/self/exe");
    if cfg!(target_os = "linux") && link.exists() {
        return link.to_owned();
    }
    let name = std::env::args_os().next();
    let name = name.map_or_else(|| "leasehold".into(), std::path::PathBuf::from);
    std::env::current_exe().unwrap_or(name)
}

/// The terminal has stopped the command: all of its group first, then ourselves, so that the
/// shell behind us goes on. When it lets us go on, the lease decides whether the command does.
fn suspend(lease: &Lease, options: &Options, group: &Group, terminal: &Terminal) {
    group.suspend();
    terminal.take_back();
    Terminal::stop_ourselves();
    if lease.check().is_err() && lease.renew().is_err() {
        if group.kill() && Level::Normal <= options.level {
            say(format_args!(
                "the lease of {:?} ran out while the command was stopped: it was killed",
                options.key
            ));
        }
        return;
    }
    terminal.give(group.leader());
    group.let_go();
}

fn code(event: Event, group: &Group, lease: &Lease, options: &Options) -> Code {
    match event {
        _ if group.was_killed() => Code::LOST,
        Event::Exited(code) => {
            let code = Code(u8::try_from(code).unwrap_or(u8::MAX));
            // By the SIGTERM that we sent for the lease.
            if group.was_terminated() && code == Code::of_signal(Signal::TERM.as_raw()) {
                return Code::LOST;
            }
            code
        }
        Event::Killed(signal) if Group::KEYS.contains(&signal) => Code::of_signal(signal),
        // The supervisor has done it: we were stopped, or late.
        Event::Killed(_) if lease.remaining() <= options.margin() || group.was_late() => {
            if Level::Normal <= options.level {
                say(format_args!(
                    "the lease of {:?} ran out: the command was killed",
                    options.key
                ));
            }
            Code::LOST
        }
        Event::Killed(signal) => Code::of_signal(signal),
        Event::Suspended => Code::UNAVAILABLE,
    }
}
