use super::*;
use std::process::{Child, Command, Stdio};

/// A process of the test's own, ended when it goes out of scope.
struct Sleeper(Child);

impl Sleeper {
    fn start(args: &[&str]) -> Sleeper {
        let child = Command::new(args[0]).args(&args[1..]).stdin(Stdio::null()).spawn().unwrap();
        let sleeper = Sleeper(child);
        // Wait for exec, after which the command line is its own.
        for _ in 0..500 {
            if Process::read(sleeper.pid()).is_some_and(|process| process.comm == "sleep") {
                return sleeper;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{args:?} does not start");
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The real ps over the same processes, cut into columns as the field's engines do; `None`: it is not installed.
fn ps(pids: &[i32], args: &str) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let list: Vec<String> = pids.iter().map(i32::to_string).collect();
    let mut command = Command::new("ps");
    command.args(args.split_whitespace()).arg(format!("-q{}", list.join(","))).env("TZ", "UTC");
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let titles: Vec<String> = lines.next()?.split_whitespace().map(str::to_owned).collect();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (own, last) = words.split_at(titles.len() - 1);
        own.iter().map(|word| word.to_string()).chain([last.join(" ")]).collect()
    };
    Some((titles.clone(), lines.map(row).collect()))
}

#[test]
fn as_the_real_ps() {
    let sleepers = [Sleeper::start(&["sleep", "300"]), Sleeper::start(&["nice", "-n", "5", "sleep", "301"])];
    let pids = [1, 2, sleepers[0].pid(), sleepers[1].pid()];
    let formats = [
        "-ef",
        "aux",
        "-aux",
        "ax",
        "-F",
        "-l",
        "-fl",
        "-ely",
        "l",
        "j",
        "-j",
        "-fj",
        "-e",
        "-O ppid",
        "-ef -o pid",
        "-o pid,user,uid,gid,group,comm,stat,state,tty,nice,pri,nlwp,args",
        "-eopid,ppid,pgid,sid,tpgid,euser,ruser,egroup,rgroup,vsz,sz,psr,cls,rtprio,f,cmd=HEAD",
        "-o pid,wchan:30,user:3,start,stime,start_time,bsdstart,cputime,bsdtime,times -o ucmd",
        "axo pid,lstart",
        "-o pid,opri,priority,pri,policy,euid,egid,rgid,ruid,suid,lwp,tid,thcount,maj_flt,pmem",
    ];
    // What changes from one moment to the next.
    let moving =
        ["C", "%CPU", "TIME", "PSR", "RSS", "VSZ", "SZ", "STAT", "S", "WCHAN", "%MEM", "NLWP", "THCNT", "MAJFL"];
    for format in formats {
        let Some((titles, rows)) = ps(&pids, format) else { return };
        let ours = top(&pids, format).unwrap();
        assert_eq!(ours.titles, titles, "{format}");
        assert_eq!(ours.processes.len(), rows.len(), "{format}");
        for (mine, theirs) in ours.processes.iter().zip(rows) {
            let pid = mine[titles.iter().position(|title| title == "PID").unwrap()].clone();
            let own = pids[2..].iter().any(|own| own.to_string() == pid);
            for ((mine, theirs), title) in mine.iter().zip(theirs).zip(&titles) {
                let mine: Vec<&str> = mine.split_whitespace().collect();
                assert!(
                    mine.join(" ") == theirs || (!own && moving.contains(&title.as_str())) || title == "PSR",
                    "{format}: {title} of {pid}: {mine:?} is not {theirs:?}"
                );
            }
        }
    }
}

#[test]
fn the_default_is_full() {
    let me = std::process::id() as i32;
    let shown = top(&[me, me], "  ").unwrap();
    assert_eq!(shown.titles, ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"]);
    assert_eq!(shown.processes.len(), 1);
    assert_eq!(shown.processes[0][1], me.to_string());
    assert_eq!(top(&[i32::MAX], "").unwrap().processes, Vec::<Vec<String>>::new());
    assert_eq!(top(&[me], "-eo pid,comm=HH,x").unwrap().titles, ["PID", "HH,x"]);
}

#[test]
fn parents_before_children() {
    let process = |pid: i32, ppid: i32| Process { pid, ppid, ..Process::default() };
    let all = || vec![process(2, 1), process(3, 2), process(4, 3), process(5, 2), process(6, 5), process(7, 99)];
    let drawn = |forest| -> Vec<(i32, String)> {
        grow(all(), forest).into_iter().map(|process| (process.pid, process.branch)).collect()
    };
    let expected = [(2, ""), (3, " \\_ "), (4, " |   \\_ "), (5, " \\_ "), (6, "     \\_ "), (7, "")];
    assert_eq!(drawn(Forest::Lines), expected.map(|(pid, branch)| (pid, branch.to_owned())));
    assert_eq!(drawn(Forest::Indent)[2], (4, "    ".to_owned()));
    let circle = grow(vec![process(2, 3), process(3, 2)], Forest::Lines);
    assert_eq!(circle.len(), 2);
    let me = std::process::id() as i32;
    assert_eq!(top(&[me], "axf").unwrap().processes.len(), 1);
}

#[test]
fn mistakes() {
    let rows = [
        ("-o comm", "Couldn't find PID field in ps output"),
        ("-o pid=X", "Couldn't find PID field in ps output"),
        ("-o pid=", "Couldn't find PID field in ps output"),
        ("-o zz", "ps: error: unknown user-defined format specifier \"zz\""),
        ("-o \"pid comm\"", "ps: error: unknown user-defined format specifier \"\"pid\""),
        ("-zz", "ps: error: unsupported SysV option"),
        ("zz", "ps: error: unsupported option (BSD syntax)"),
        ("--zz", "ps: error: unknown gnu long option"),
        (";ls", "ps: error: garbage option"),
        ("-o ,pid", "ps: error: improper format list"),
        ("-o pid,,comm", "ps: error: improper format list"),
        ("-o", "ps: error: format specification must follow -o"),
        ("-o pid:x", "ps: error: column widths must be unsigned decimal numbers"),
        ("u -o pid", "ps: error: conflicting format options"),
        ("-f u", "ps: error: conflicting format options"),
        ("u l", "ps: error: conflicting format options"),
        ("-y", "ps: error: modifier -y without format -l makes no sense"),
    ];
    for (args, text) in rows {
        let error = top(&[1], args).expect_err(args);
        assert_eq!((error.http_status(), error.message()), (500, text), "{args}");
    }
    for args in ["-C sleep", "-p 1", "1", "-L", "v", "s", "--sort=pid", "-u root", "-eZ"] {
        let error = top(&[1], args).expect_err(args);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{args}: {error}");
    }
}
