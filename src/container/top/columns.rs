//! The columns of ps: names, headings, values.

use super::process::{HERTZ, Host, Process, printable};
use crate::container::text::Civil;

/// The meaning of a column's name.
pub(super) enum Known {
    Column(Column),
    /// A column of ps that is not implemented here.
    NotBuilt,
    No,
}

pub(super) fn known(name: &str, width: Option<usize>) -> Known {
    match Column::named(name, width) {
        Some(column) => Known::Column(column),
        None if NOT_BUILT.split(' ').any(|known| known == name) => Known::NotBuilt,
        None => Known::No,
    }
}

/// A column of the output.
#[derive(Clone)]
pub(super) struct Column {
    names: &'static str,
    pub(super) title: String,
    width: usize,
    make: Make,
}

type Make = fn(&Process, &Host, usize) -> String;

/// Default width of the columns whose values are cut.
const USER_WIDTH: usize = 8;
const WCHAN_WIDTH: usize = 6;

const DAY: u64 = 86_400;

impl Column {
    /// The column of that name; `None`: there is none.
    pub(super) fn named(name: &str, width: Option<usize>) -> Option<Column> {
        let (names, title, default_width, make) =
            TABLE.iter().find(|(names, ..)| names.split(' ').any(|known| known == name))?;
        let width = width.unwrap_or(*default_width);
        Some(Column { names, title: title.to_string(), width, make: *make })
    }

    /// Shows the program's name in place of the command line.
    pub(super) fn name_only(&mut self) {
        if ["args command", "cmd"].contains(&self.names) {
            self.make = |p, _, _| command(p, false);
        }
    }

    /// The key by which rows are sorted: a number, or else a text.
    pub(super) fn key(&self, process: &Process, host: &Host) -> (f64, String) {
        let text = || self.value(process, host);
        match self.names.split(' ').next() {
            Some("time" | "times" | "bsdtime") => (process.cpu_ticks as f64, String::new()),
            Some("etime" | "etimes") => (-(process.start_ticks as f64), String::new()),
            Some("start" | "lstart" | "stime" | "start_time" | "bsdstart") => {
                (process.start_ticks as f64, String::new())
            }
            Some("pcpu" | "c" | "cp") => (cpu_per_mille(process, host) as f64, String::new()),
            Some("tname" | "tty") => (f64::from(process.tty_number), String::new()),
            Some("comm" | "ucmd" | "args" | "cmd" | "exe" | "cgroup") => (0.0, text()),
            _ => text().parse().map_or_else(|_| (0.0, text()), |number: f64| (number, String::new())),
        }
    }

    pub(super) fn value(&self, process: &Process, host: &Host) -> String {
        (self.make)(process, host, self.width)
    }
}

/// Names, heading, width of cut values, value.
const TABLE: &[(&str, &str, usize, Make)] = &[
    ("tgid", "TGID", 0, |p, _, _| p.pid.to_string()),
    ("pid", "PID", 0, |p, _, _| p.pid.to_string()),
    ("ppid", "PPID", 0, |p, _, _| p.ppid.to_string()),
    ("lwp", "LWP", 0, |p, _, _| p.tid.to_string()),
    ("tid", "TID", 0, |p, _, _| p.tid.to_string()),
    ("spid", "SPID", 0, |p, _, _| p.tid.to_string()),
    ("pgid", "PGID", 0, |p, _, _| p.pgrp.to_string()),
    ("pgrp", "PGRP", 0, |p, _, _| p.pgrp.to_string()),
    ("sid", "SID", 0, |p, _, _| p.session.to_string()),
    ("sess session", "SESS", 0, |p, _, _| p.session.to_string()),
    ("tpgid", "TPGID", 0, |p, _, _| p.tpgid.to_string()),
    ("user uname", "USER", USER_WIDTH, |p, host, width| cut(host.user(p.uids[1]), width)),
    ("uid_name", "UID", USER_WIDTH, |p, host, width| cut(host.user(p.uids[1]), width)),
    ("euser", "EUSER", USER_WIDTH, |p, host, width| cut(host.user(p.uids[1]), width)),
    ("ruser", "RUSER", USER_WIDTH, |p, host, width| cut(host.user(p.uids[0]), width)),
    ("group", "GROUP", USER_WIDTH, |p, host, width| cut(host.group(p.gids[1]), width)),
    ("egroup", "EGROUP", USER_WIDTH, |p, host, width| cut(host.group(p.gids[1]), width)),
    ("rgroup", "RGROUP", USER_WIDTH, |p, host, width| cut(host.group(p.gids[0]), width)),
    ("uid", "UID", 0, |p, _, _| p.uids[1].to_string()),
    ("euid", "EUID", 0, |p, _, _| p.uids[1].to_string()),
    ("ruid", "RUID", 0, |p, _, _| p.uids[0].to_string()),
    ("suid", "SUID", 0, |p, _, _| p.uids[2].to_string()),
    ("gid", "GID", 0, |p, _, _| p.gids[1].to_string()),
    ("egid", "EGID", 0, |p, _, _| p.gids[1].to_string()),
    ("rgid", "RGID", 0, |p, _, _| p.gids[0].to_string()),
    ("sgid", "SGID", 0, |p, _, _| p.gids[2].to_string()),
    ("svgid", "SVGID", 0, |p, _, _| p.gids[2].to_string()),
    ("fgid", "FGID", 0, |p, _, _| p.gids[3].to_string()),
    ("fsgid", "FSGID", 0, |p, _, _| p.gids[3].to_string()),
    ("svuid", "SVUID", 0, |p, _, _| p.uids[2].to_string()),
    ("fuid", "FUID", 0, |p, _, _| p.uids[3].to_string()),
    ("fsuid", "FSUID", 0, |p, _, _| p.uids[3].to_string()),
    ("suser", "SUSER", USER_WIDTH, |p, host, width| cut(host.user(p.uids[2]), width)),
    ("svuser", "SVUSER", USER_WIDTH, |p, host, width| cut(host.user(p.uids[2]), width)),
    ("fuser", "FUSER", USER_WIDTH, |p, host, width| cut(host.user(p.uids[3]), width)),
    ("fsuser", "FSUSER", USER_WIDTH, |p, host, width| cut(host.user(p.uids[3]), width)),
    ("sgroup", "SGROUP", USER_WIDTH, |p, host, width| cut(host.group(p.gids[2]), width)),
    ("svgroup", "SVGROUP", USER_WIDTH, |p, host, width| cut(host.group(p.gids[2]), width)),
    ("fgroup", "FGROUP", USER_WIDTH, |p, host, width| cut(host.group(p.gids[3]), width)),
    ("fsgroup", "FSGROUP", USER_WIDTH, |p, host, width| cut(host.group(p.gids[3]), width)),
    ("supgid", "SUPGID", 0, |p, _, _| if p.more_groups.is_empty() { "-".into() } else { p.more_groups.join(",") }),
    ("comm ucomm", "COMMAND", 0, |p, _, _| command(p, false)),
    ("ucmd", "CMD", 0, |p, _, _| command(p, false)),
    ("args command", "COMMAND", 0, |p, _, _| command(p, true)),
    ("cmd", "CMD", 0, |p, _, _| command(p, true)),
    ("stat", "STAT", 0, |p, _, _| stat(p)),
    ("state s", "S", 0, |p, _, _| p.state.to_string()),
    ("pcpu %cpu", "%CPU", 0, |p, host, _| tenths(cpu_per_mille(p, host).min(9_999))),
    ("c", "C", 0, |p, host, _| (cpu_per_mille(p, host) / 10).min(99).to_string()),
    ("cp", "CP", 0, |p, host, _| cpu_per_mille(p, host).min(999).to_string()),
    ("pmem %mem", "%MEM", 0, |p, host, _| tenths((p.rss_kib * 1000 / host.memory_kib.max(1)).min(999))),
    ("rss rssize", "RSS", 0, |p, _, _| p.rss_kib.to_string()),
    ("rsz", "RSZ", 0, |p, _, _| p.rss_kib.to_string()),
    ("vsz vsize", "VSZ", 0, |p, _, _| (p.vsize / 1024).to_string()),
    ("sz", "SZ", 0, |p, host, _| (p.vsize / host.page_size).to_string()),
    ("etime", "ELAPSED", 0, |p, host, _| elapsed(age(p, host))),
    ("etimes", "ELAPSED", 0, |p, host, _| age(p, host).to_string()),
    ("time cputime", "TIME", 0, |p, _, _| days_time(p.cpu_ticks / HERTZ)),
    ("times cputimes", "TIME", 0, |p, _, _| (p.cpu_ticks / HERTZ).to_string()),
    ("bsdtime", "TIME", 0, |p, _, _| bsd_time(p.cpu_ticks / HERTZ)),
    ("tname", "TTY", 0, |p, _, _| p.tty()),
    ("tty tt", "TT", 0, |p, _, _| p.tty()),
    ("nice ni", "NI", 0, |p, _, _| p.nice.to_string()),
    ("pri", "PRI", 0, |p, _, _| (39 - p.priority).to_string()),
    ("opri", "PRI", 0, |p, _, _| (60 + p.priority).to_string()),
    ("priority", "PRI", 0, |p, _, _| p.priority.to_string()),
    ("start", "STARTED", 0, |p, host, _| started(p, host)),
    ("lstart", "STARTED", 0, |p, host, _| long_start(p, host)),
    ("stime", "STIME", 0, |p, host, _| short_start(p, host)),
    ("start_time", "START", 0, |p, host, _| short_start(p, host)),
    ("bsdstart", "START", 0, |p, host, _| bsd_start(p, host)),
    ("nlwp", "NLWP", 0, |p, _, _| p.threads.to_string()),
    ("thcount", "THCNT", 0, |p, _, _| p.threads.to_string()),
    ("wchan wname", "WCHAN", WCHAN_WIDTH, |p, _, width| p.wchan().chars().take(width).collect()),
    ("psr", "PSR", 0, |p, _, _| p.processor.to_string()),
    ("cpuid", "CPUID", 0, |p, _, _| p.processor.to_string()),
    ("sched", "SCH", 0, |p, _, _| p.policy.to_string()),
    ("cls class", "CLS", 0, |p, _, _| class(p).into()),
    ("policy", "POL", 0, |p, _, _| class(p).into()),
    ("rtprio", "RTPRIO", 0, |p, _, _| if p.rt_priority == 0 { "-".into() } else { p.rt_priority.to_string() }),
    ("f flag flags", "F", 0, |p, _, _| format!("{:o}", p.flags >> 6 & 7)),
    ("addr", "ADDR", 0, |_, _, _| "-".into()),
    ("maj_flt", "MAJFL", 0, |p, _, _| p.maj_flt.to_string()),
    ("majflt", "MAJFLT", 0, |p, _, _| p.maj_flt.to_string()),
    ("pagein", "PAGEIN", 0, |p, _, _| p.maj_flt.to_string()),
    ("min_flt", "MINFL", 0, |p, _, _| p.min_flt.to_string()),
    ("minflt", "MINFLT", 0, |p, _, _| p.min_flt.to_string()),
    ("trs", "TRS", 0, |p, _, _| (p.code_size >> 10).to_string()),
    ("drs", "DRS", 0, |p, _, _| (p.vsize.saturating_sub(p.code_size) >> 10).to_string()),
    ("stackp start_stack", "STACKP", 0, |p, _, _| format!("{:016x}", p.stack)),
    ("esp", "ESP", 0, |p, _, _| format!("{:016x}", p.esp)),
    ("eip", "EIP", 0, |p, _, _| format!("{:016x}", p.eip)),
    // The kernel does not report these any more.
    ("tmout", "TMOUT", 0, |_, _, _| "-".into()),
    ("alarm", "ALARM", 0, |_, _, _| "-".into()),
    ("pending sig tsig", "PENDING", 0, |p, _, _| p.signals[0].clone()),
    ("blocked sigmask", "BLOCKED", 0, |p, _, _| p.signals[1].clone()),
    ("ignored sigignore", "IGNORED", 0, |p, _, _| p.signals[2].clone()),
    ("caught sigcatch", "CAUGHT", 0, |p, _, _| p.signals[3].clone()),
    ("label", "LABEL", 0, |p, _, _| p.word("attr/current")),
    ("context", "CONTEXT", 0, |p, _, _| p.word("attr/current")),
    ("cgroup", "CGROUP", 0, |p, _, _| p.cgroups()),
    ("exe", "EXE", 0, |p, _, _| p.link("exe")),
    ("fname", "COMMAND", 0, |p, _, _| printable(&p.comm).chars().take(8).collect()),
    ("oom", "OOM", 0, |p, _, _| p.word("oom_score")),
    ("oomadj", "OOMADJ", 0, |p, _, _| p.word("oom_score_adj")),
    ("cgroupns", "CGROUPNS", 0, |p, _, _| p.namespace("cgroup")),
    ("ipcns", "IPCNS", 0, |p, _, _| p.namespace("ipc")),
    ("mntns", "MNTNS", 0, |p, _, _| p.namespace("mnt")),
    ("netns", "NETNS", 0, |p, _, _| p.namespace("net")),
    ("pidns", "PIDNS", 0, |p, _, _| p.namespace("pid")),
    ("timens", "TIMENS", 0, |p, _, _| p.namespace("time")),
    ("userns", "USERNS", 0, |p, _, _| p.namespace("user")),
    ("utsns", "UTSNS", 0, |p, _, _| p.namespace("uts")),
];

/// Further columns of ps.
const NOT_BUILT: &str = "_left _left2 _right _right2 _unlimited _unlimited2 ag_id ag_nice atime cgname cuc cuu dsiz \
    intpri lastcpu lim longtname lsession luid lxc m_drs m_size m_trs machine numa ouid pri_api pri_bar pri_baz pri_foo \
    pss rbytes rchars rops seat sgi_p sgi_rss sig_block sig_catch sig_ignore sig_pend size slice supgrp trss tsiz tty4 \
    tty8 uid_hack unit uss util uunit wbytes wcbytes wchars wops zone";

/// A name that is too wide ends with a plus sign.
fn cut(name: String, width: usize) -> String {
    match name.chars().count() > width {
        true => name.chars().take(width - 1).chain(['+']).collect(),
        false => name,
    }
}

fn command(process: &Process, args: bool) -> String {
    let mut text = if args { process.args() } else { printable(&process.comm) };
    if process.state == 'Z' {
        text += " <defunct>";
    }
    if args && let Some(environment) = &process.environment {
        text += environment;
    }
    format!("{}{text}", process.branch).trim_start().to_owned()
}

fn stat(process: &Process) -> String {
    let marks = [
        (process.nice < 0, '<'),
        (process.nice > 0, 'N'),
        (process.locked, 'L'),
        (process.session == process.pid, 's'),
        (process.threads > 1, 'l'),
        (process.pgrp == process.tpgid, '+'),
    ];
    [process.state].into_iter().chain(marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark)).collect()
}

fn class(process: &Process) -> &'static str {
    match process.policy {
        0 => "TS",
        1 => "FF",
        2 => "RR",
        3 => "B",
        4 => "ISO",
        5 => "IDL",
        6 => "DLN",
        7 => "EXT",
        _ => "?",
    }
}

fn age(process: &Process, host: &Host) -> u64 {
    host.uptime_ticks.saturating_sub(process.start_ticks) / HERTZ
}

/// Processor time in thousandths of the time that the process has lived.
fn cpu_per_mille(process: &Process, host: &Host) -> u64 {
    let lived = host.uptime_ticks.saturating_sub(process.start_ticks);
    (process.cpu_ticks * 1000).checked_div(lived).unwrap_or(0)
}

/// `12.3`, from 100 on without the fraction.
fn tenths(value: u64) -> String {
    if value > 999 { (value / 10).to_string() } else { format!("{}.{}", value / 10, value % 10) }
}

/// `[[days-]hours:]minutes:seconds`.
fn elapsed(seconds: u64) -> String {
    let (minutes, second) = (seconds / 60 % 60, seconds % 60);
    match seconds {
        ..3600 => format!("{minutes:02}:{second:02}"),
        _ => days_time(seconds),
    }
}

/// `[days-]hours:minutes:seconds`.
fn days_time(seconds: u64) -> String {
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    if seconds >= DAY { format!("{}-{clock}", seconds / DAY) } else { clock }
}

fn bsd_time(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn start_seconds(process: &Process, host: &Host) -> i64 {
    host.boot_seconds + (process.start_ticks / HERTZ) as i64
}

/// The time of day for a process that started today, the day for one of this year, else the year.
fn short_start(process: &Process, host: &Host) -> String {
    let (start, now) = (Civil::of(start_seconds(process, host)), Civil::of(host.now_seconds));
    match start {
        Civil { year, .. } if year != now.year => format!("{year:04}"),
        Civil { month, day, .. } if (month, day) != (now.month, now.day) => format!("{}{day:02}", start.month_name()),
        _ => format!("{:02}:{:02}", start.hour, start.minute),
    }
}

fn recent(process: &Process, host: &Host) -> bool {
    host.now_seconds - start_seconds(process, host) <= DAY as i64
}

fn started(process: &Process, host: &Host) -> String {
    let start = Civil::of(start_seconds(process, host));
    match recent(process, host) {
        true => format!("{:02}:{:02}:{:02}", start.hour, start.minute, start.second),
        false => format!("{} {:02}", start.month_name(), start.day),
    }
}

fn bsd_start(process: &Process, host: &Host) -> String {
    let start = Civil::of(start_seconds(process, host));
    match recent(process, host) {
        true => format!("{:02}:{:02}", start.hour, start.minute),
        false => format!("{} {:2}", start.month_name(), start.day),
    }
}

fn long_start(process: &Process, host: &Host) -> String {
    let Civil { year, day, hour, minute, second, .. } = Civil::of(start_seconds(process, host));
    let start = Civil::of(start_seconds(process, host));
    format!("{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}", start.weekday_name(), start.month_name())
}
