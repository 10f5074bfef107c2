use super::*;
use std::process::{Child, Command, Stdio};

/// A process of the test's own, ended when it goes out of scope.
struct Sleeper(Child);

impl Sleeper {
    fn start(args: &[&str]) -> Sleeper {
        let child = Command::new(args[0]).args(&args[1..]).stdin(Stdio::null()).spawn().unwrap();
        let sleeper = Sleeper(child);
        // Wait for exec, after which the command line is its own.
        for _ in 0..6000 {
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

/// The real ps over the same processes, cut into columns as dockerd does; `None`: it is not installed.
fn ps(pids: &[i32], args: &str) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let list: Vec<String> = pids.iter().map(i32::to_string).collect();
    let mut command = Command::new("ps");
    command.args(args.split_whitespace()).arg(format!("-q{}", list.join(","))).env("TZ", "UTC");
    let mut output = command.output().ok()?;
    if !output.status.success() {
        // Like dockerd: some options cannot be combined with that one.
        output = Command::new("ps").args(args.split_whitespace()).env("TZ", "UTC").output().ok()?;
    }
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines = text.lines();
    let titles: Vec<String> =
        lines.next().unwrap_or_else(|| panic!("{args}: {output:?}")).split_whitespace().map(str::to_owned).collect();
    let pid = titles.iter().position(|title| title == "PID").unwrap();
    let rows = lines.map(|line| cut(line, &titles)).filter(|row| list.contains(&row[pid])).collect();
    Some((titles, rows))
}

/// The columns of a line of ps. A process that started before today has a month and a day under `START` and `STARTED`;
/// every other column has one word, and the last one has the rest of the line.
fn cut(line: &str, titles: &[String]) -> Vec<String> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = line.split_whitespace();
    let mut columns = Vec::new();
    for title in &titles[..titles.len() - 1] {
        let mut column = words.next().unwrap_or_default().to_owned();
        if ["START", "STARTED"].contains(&title.as_str()) && MONTHS.contains(&column.as_str()) {
            column = format!("{column} {}", words.next().unwrap_or_default());
        }
        columns.push(column);
    }
    columns.push(words.collect::<Vec<_>>().join(" "));
    columns
}

#[test]
fn a_line_of_ps_is_cut_into_columns() {
    let titles: Vec<String> = ["PID", "STARTED", "STIME", "START", "CMD"].map(str::to_owned).to_vec();
    let old = "    1   Nov  3 Nov03  Nov 3 sleep 300";
    assert_eq!(cut(old, &titles), ["1", "Nov 3", "Nov03", "Nov 3", "sleep 300"]);
    let of_today = "    2 10:15:46 10:15  10:15 sh -c Nov 3";
    assert_eq!(cut(of_today, &titles), ["2", "10:15:46", "10:15", "10:15", "sh -c Nov 3"]);
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
        "-o pid,user,uid,gid,group,comm,stat,state,tty,nice,pri,nlwp,args",
        "-eopid,ppid,pgid,sid,tpgid,euser,ruser,egroup,rgroup,vsz,sz,psr,cls,rtprio,f,cmd=HEAD",
        "-o pid,wchan:30,user:3,start,stime,start_time,bsdstart,cputime,bsdtime,times -o ucmd",
        "axo pid,lstart",
        "-o pid,opri,priority,pri,policy,euid,egid,rgid,ruid,suid,lwp,tid,thcount,maj_flt,pmem",
        "-ef ww",
        "-F w",
        "-l w",
        "-j w",
        "-fl w",
        "-fj w",
        "-ef c",
        "axc",
        "-L",
        "-eLf",
        "-Lj",
        "-Ll",
        "-LF",
        "-Lfl",
        "-fL w",
        "-eT",
        "-jT",
        "-fT",
        "u -L",
        "l -L",
        "j -L",
        "ax -T",
        "uH",
        "-eo pid,lwp,nlwp,comm -L",
        "-fc",
        "-lc",
        "-c",
        "-fP",
        "-jP",
        "-eM",
        "-fZ",
        "u Z",
        "axs",
        "axv",
        "axX",
        "-o pid,pidns,netns,mntns,ipcns,utsns,userns,cgroupns,cgroup",
        "-o pid,svuid,sgid,fuid,fgid,suser,fgroup,supgid,label,exe,fname,sched,cpuid,oomadj",
        "-o pid,majflt,pagein,minflt,trs,drs,tgid,blocked,ignored,caught",
    ];
    // Values that change from one moment to the next.
    let moving = [
        "C", "%CPU", "TIME", "PSR", "RSS", "VSZ", "SZ", "STAT", "S", "WCHAN", "%MEM", "NLWP", "THCNT", "MAJFL",
        "MAJFLT", "PAGEIN", "MINFLT", "TRS", "DRS", "ESP", "EIP",
    ];
    // The difference of our answer; `None`: ps is not installed.
    let wrong = |format: &str| {
        let (titles, rows) = ps(&pids, format)?;
        let ours = top(&pids, format).unwrap();
        assert_eq!(ours.titles, titles, "{format}");
        assert_eq!(ours.processes.len(), rows.len(), "{format}");
        let mut wrong = Vec::new();
        for (mine, theirs) in ours.processes.iter().zip(rows) {
            let pid = mine[titles.iter().position(|title| title == "PID").unwrap()].clone();
            let own = pids[2..].iter().any(|own| own.to_string() == pid);
            for ((mine, theirs), title) in mine.iter().zip(theirs).zip(&titles) {
                let mine = mine.split_whitespace().collect::<Vec<_>>().join(" ");
                if mine != theirs && (own || !moving.contains(&title.as_str())) && title != "PSR" {
                    wrong.push(format!("{format}: {title} of {pid}: {mine:?} is not {theirs:?}"));
                }
            }
        }
        Some(wrong)
    };
    for format in formats {
        // A second, the unit of processor shares, may end between the two reads.
        let mut last = Vec::new();
        for _ in 0..10 {
            let Some(found) = wrong(format) else { return };
            last = found;
            if last.is_empty() {
                break;
            }
        }
        assert!(last.is_empty(), "{last:#?}");
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
    // procps 4.0.2 shows a heading alone.
    assert_eq!(top(&[me], "-ef -o pid").unwrap().processes, [[me.to_string()]]);
    assert_eq!(top(&[me], "-eo pid,comm=HH,x").unwrap().titles, ["PID", "HH,x"]);
}

#[test]
fn parents_before_children() {
    let process = |pid: i32, ppid: i32| Process { pid, ppid, ..Process::default() };
    let all = || vec![process(2, 1), process(3, 2), process(4, 3), process(5, 2), process(6, 5), process(7, 99)];
    let drawn = |forest| -> Vec<(i32, String)> {
        grow(all(), forest).into_iter().map(|process| (process.pid, process.branch)).collect()
    };
    let expected =
        [(2, " \\_ "), (3, " |   \\_ "), (4, " |   |   \\_ "), (5, " |   \\_ "), (6, " |       \\_ "), (7, " \\_ ")];
    assert_eq!(drawn(Forest::Lines), expected.map(|(pid, branch)| (pid, branch.to_owned())));
    assert_eq!(drawn(Forest::Indent)[2], (4, "      ".to_owned()));
    let circle = grow(vec![process(2, 3), process(3, 2)], Forest::Lines);
    assert_eq!(circle.len(), 2);
    let me = std::process::id() as i32;
    assert_eq!(top(&[me], "axf").unwrap().processes.len(), 1);
}

/// The commands of the processes that are shown.
fn shown(pids: &[i32], args: &str) -> Vec<String> {
    let shown = top(pids, args).unwrap_or_else(|error| panic!("{args}: {error}"));
    shown.processes.into_iter().map(|mut row| row.pop().unwrap()).collect()
}

#[test]
fn chosen_and_sorted() {
    let sleepers = [Sleeper::start(&["sleep", "302"]), Sleeper::start(&["nice", "-n", "5", "sleep", "303"])];
    let (one, two) = (sleepers[0].pid(), sleepers[1].pid());
    let pids = [one, two];
    let me = std::process::id();
    for (args, want) in [
        (format!("-f -p {one}"), &["sleep 302"][..]),
        (format!("u -p {one},{two}"), &["sleep 302", "sleep 303"]),
        (format!("{two}"), &["sleep 303"]),
        (format!("p{two}"), &["sleep 303"]),
        (format!("-f -N -p {two}"), &["sleep 302"]),
        (format!("-ef -p {two}"), &["sleep 302", "sleep 303"]),
        ("-f -p 1".to_owned(), &[]),
        ("-f -C sleep".to_owned(), &["sleep 302", "sleep 303"]),
        ("-f -u root,0".to_owned(), &["sleep 302", "sleep 303"]),
        ("u U root".to_owned(), &["sleep 302", "sleep 303"]),
        ("-f -U 4242 -G root".to_owned(), &["sleep 302", "sleep 303"]),
        (format!("-f --ppid {me}"), &["sleep 302", "sleep 303"]),
        ("-ef --sort=-nice".to_owned(), &["sleep 303", "sleep 302"]),
        ("aux --sort -args".to_owned(), &["sleep 303", "sleep 302"]),
        ("axk+comm,-pid".to_owned(), if one < two { &["sleep 303", "sleep 302"] } else { &["sleep 302", "sleep 303"] }),
    ] {
        assert_eq!(shown(&pids, &args), want, "{args}");
    }
    assert_eq!(shown(&[one], "-efH --forest"), ["\\_ sleep 302"]);
    let environment = shown(&[one], "axe").remove(0);
    assert!(environment.starts_with("sleep 302 ") && environment.contains("PATH="), "{environment}");
    // A row a thread.
    let (send, receive) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || receive.recv());
    let threads = top(&[me as i32], "-eLf").unwrap();
    let (pid, lwp) = (&threads.titles[1], &threads.titles[3]);
    assert_eq!((pid.as_str(), lwp.as_str()), ("PID", "LWP"));
    assert!(threads.processes.len() > 1 && threads.processes.iter().all(|row| row[1] == me.to_string()));
    assert!(threads.processes.iter().any(|row| row[3] != row[1]), "{threads:?}");
    drop(send);
    thread.join().unwrap().unwrap_err();
}

#[test]
fn mistakes() {
    let rows = [
        ("-ef --no-headers", "Couldn't find PID field in ps output"),
        ("axh", "Couldn't find PID field in ps output"),
        ("-o tid", "Couldn't find PID field in ps output"),
        ("-o comm", "Couldn't find PID field in ps output"),
        ("-o pid=X", "Couldn't find PID field in ps output"),
        ("-o pid=", "Couldn't find PID field in ps output"),
        ("-o zz", "ps: error: unknown user-defined format specifier \"zz\""),
        ("-o \"pid comm\"", "ps: error: unknown user-defined format specifier \"\"pid\""),
        ("-p x", "ps: error: process ID list syntax error"),
        ("-p 1,,2", "ps: error: improper list"),
        ("-p", "ps: error: list of process IDs must follow -p"),
        ("-C", "ps: error: list of command names must follow -C"),
        ("-u no-such-user", "ps: error: user name does not exist"),
        ("-G no-such-group", "ps: error: group name does not exist"),
        ("-C no-such-program", "ps: exit status 1"),
        ("--sort=zz", "ps: error: unknown sort specifier"),
        ("--sort", "ps: error: long sort specification must follow --sort"),
        ("-L -T", "ps: error: thread flags conflict; can't use both -L and -T"),
        ("-L --forest", "ps: error: thread display conflicts with forest display"),
        ("-zz", "ps: error: unsupported SysV option"),
        ("zz", "ps: error: unsupported option (BSD syntax)"),
        ("--zz", "ps: error: unknown gnu long option"),
        (";ls", "ps: error: garbage option"),
        ("-o ,pid", "ps: error: improper format list"),
        ("-o pid,,comm", "ps: error: improper format list"),
        ("-o", "ps: error: format specification must follow -o"),
        ("-o pid:x", "ps: error: column widths must be unsigned decimal numbers"),
        ("u -o pid", "ps: error: conflicting format options"),
        ("-eF -o pid", "ps: error: conflicting format options"),
        ("-el -o pid", "ps: error: conflicting format options"),
        ("-ej -o pid", "ps: error: can not use output modifiers with user-defined output"),
        ("-f u", "ps: error: conflicting format options"),
        ("u l", "ps: error: conflicting format options"),
        ("-y", "ps: error: modifier -y without format -l makes no sense"),
    ];
    for (args, text) in rows {
        let error = top(&[1], args).expect_err(args);
        assert_eq!((error.http_status(), error.message()), (500, text), "{args}");
    }
    for args in ["-m", "axm", "-t ?", "-q 1", "T", "r", "-o pid,unit", "--sort=pss", "--headers", "-V", "--help"] {
        let error = top(&[1], args).expect_err(args);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{args}: {error}");
    }
}
