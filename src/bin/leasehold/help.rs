//! The texts of `--help` and of the man page. A paragraph is one line, broken for the terminal
//! where it is shown; lines that begin with blanks are shown as they stand.

pub(crate) const ABOUT: &str = "\
Run a command under a lease lock on Redis.\n\n\
The lock is a key with a token and a time to live, so that it is shared with every program that \
follows the pattern of the Redis documentation. It is renewed while the command runs. If it \
cannot be, the command is told in time, and ended before anybody else can hold the lock.";

pub(crate) const CODES: &str = "\
Exit codes of leasehold's own (else it ends with the command's code):
   64    the command line, an option or the URL cannot be used
   69    the server is away, refuses, or left the outcome unknown
   70    the lease was lost, or about to be, and the command was ended for it
   74    standard output cannot be written to
   75    another holds the lock (--busy-code)
   126   the command is there and cannot be run
   127   there is no such command
   128+n signal n ended the command, or the wait for the lock";

pub(crate) const EXAMPLE: &str = "\
Example:
  leasehold run nightly-report -- /usr/local/bin/report";

pub(crate) const RUN: &str = "\
Take the lease, run a command, give the lease back.\n\n\
The command runs without a shell, in a process group of its own, and with standard input, output \
and error as they are. It sees LEASEHOLD_KEY, LEASEHOLD_FENCE (with --fenced) and \
LEASEHOLD_DEADLINE_MS (Unix time of the first deadline; renewal moves the real one). leasehold \
ends with the command's own code, 128 + n if signal n ended it.\n\n\
In the danger zone, when no renewal has been confirmed for too long, the whole group gets SIGTERM \
(--on-danger). Before the deadline, by a second or half of --danger, whichever is less, it gets \
SIGKILL, and leasehold ends with 70. If leasehold itself is killed or stopped, a small process \
between the two does the same.\n\n\
Signals are passed on to the group. On ^Z the group is stopped first; on fg it goes on if the \
lease is still there, else it is killed.\n\n\
What leaves the group (`timeout`, a shell with job control, a daemon) is found all the same, on \
Linux. Not covered: a command that becomes another user cannot be ended, so write `sudo leasehold \
run …` and not the reverse. And the lease ends with the process that was started: what that leaves \
behind in the background runs on without the lock, so end a script with `wait`.";

pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  leasehold run nightly -- /usr/local/bin/backup --all
  leasehold run --wait 10s --ttl 1m deploy -- ./deploy.sh
  leasehold run --on-danger stop --label \"$(hostname)\" index -- ./reindex
  leasehold run job -- sh -c 'one && two'";

pub(crate) const STATUS: &str = "\
Tell who holds a lock, for how long, and whether others wait for it.\n\n\
Those who wait are seen while leasehold, or its library, waits for them; not who polls. Without \
rights to the key KEY:leasehold:waiting it is unknown whether others wait, and null in JSON.";

pub(crate) const STATUS_EXAMPLES: &str = "\
Ends with 0 if every lock is held, 1 if one is free.

Examples:
  leasehold status nightly
  leasehold status --json nightly deploy | jq '.[].remaining_ms'";

pub(crate) const RELEASE: &str = "\
Give back a lock whose token you have: compare and delete, in one step on the server, and nothing \
else.\n\n\
There is no way to break a lock without its token. Whoever holds it may be at work; deleting its \
record would let two work at a time. A lock whose holder has died comes free when its time to live \
is over: `leasehold status` tells when.";

pub(crate) const RELEASE_EXAMPLES: &str = "\
On a command line the token can be read by others on the machine: pipe it. Ends with 1 if the lock \
is not that token's.

Example:
  printf %s \"$TOKEN\" | leasehold release nightly --token -";

pub(crate) const DOCTOR: &str = "\
Look at a server as a lock would.\n\n\
Looks at version, role, persistence, eviction, replicas, scripts, the rights of the user, clocks \
and round trips; says what each finding means for a lock, and how to mend it. Takes one lock of \
its own and leaves no key behind.";

pub(crate) const DOCTOR_EXAMPLES: &str = "\
Ends with 1 if something makes locks unsafe or impossible.

Examples:
  leasehold doctor --url redis://app:secret@10.0.0.1:6379 --key order:
  leasehold doctor --json | jq '.findings[] | select(.level == \"unsafe\")'";

pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  leasehold completions bash > /etc/bash_completion.d/leasehold
  leasehold completions zsh > /usr/local/share/zsh/site-functions/_leasehold
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish";
