//! How much processor time the control groups of the process allow it: cgroup v1 and v2.
//!
//! The kernel says in `/proc/self/cgroup` in which group the process is, and in `/proc/self/mountinfo` where the
//! trees of groups are mounted. A group's limit is a quota in each period: `cpu.max` (v2), or `cpu.cfs_quota_us`
//! and `cpu.cfs_period_us` (v1). The groups above it limit it too, so the smallest ratio on the way to the root of
//! the mount counts. (Go looks at the process's own group alone.)

use std::fs;
use std::path::{Component, Path, PathBuf};

/// So much processor time in each period, in the same unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quota {
    time: u64,
    period: u64,
}

impl Quota {
    /// How many Ps it is worth: its ratio rounded up, but two at least, as Go has it. One P for a quota of less
    /// than two processors would run nothing while another goroutine is in a call, and be slowed down all the same.
    pub(super) fn procs(self) -> usize {
        usize::try_from(self.time.div_ceil(self.period))
            .unwrap_or(usize::MAX)
            .max(2)
    }

    fn is_smaller_than(self, other: Quota) -> bool {
        u128::from(self.time) * u128::from(other.period)
            < u128::from(other.time) * u128::from(self.period)
    }
}

/// The kernel's two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The quota of the process whose files are below `root` (`/`, but for tests); `None` where there is no limit, or
/// the files do not say.
pub(super) fn quota(root: &Path) -> Option<Quota> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let (version, group) = group_of_cpu(&groups)?;
    let mount = mounts
        .lines()
        .filter_map(Mount::parse)
        .find(|mount| mount.is_for(version))?;
    let top = below(root, Path::new(&mount.point));
    let mut at = top.join(mount.path_of(group));
    let mut smallest: Option<Quota> = None;
    loop {
        if let Some(quota) = read_quota(version, &at)
            && smallest.is_none_or(|smallest| quota.is_smaller_than(smallest))
        {
            smallest = Some(quota);
        }
        if at == top || !at.pop() {
            return smallest;
        }
    }
}

/// The group that limits processor time: v1 where its controller is there, else v2's one group.
fn group_of_cpu(groups: &str) -> Option<(Version, &str)> {
    let mut unified = None;
    for line in groups.lines() {
        // number:controllers:path
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if controllers.split(',').any(|name| name == "cpu") {
            return Some((Version::One, path));
        }
        if number == "0" && controllers.is_empty() {
            unified = Some((Version::Two, path));
        }
    }
    unified
}

/// A line of `mountinfo`.
#[derive(Debug)]
struct Mount {
    /// Which directory of the file system is mounted.
    root: String,
    point: String,
    kind: String,
    options: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Mount> {
        // id parent device root point options [tags…] - kind source options
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        Some(Mount {
            root: unescape(root),
            point: unescape(point),
            kind: kind.into(),
            options: options.into(),
        })
    }

    fn is_for(&self, version: Version) -> bool {
        match version {
            Version::One => self.kind == "cgroup" && self.options.split(',').any(|o| o == "cpu"),
            Version::Two => self.kind == "cgroup2",
        }
    }

    /// Where `group` is below the mount point. A group outside of what is mounted (that of a container whose
    /// mounts were made elsewhere) is taken for its root.
    fn path_of(&self, group: &str) -> PathBuf {
        let inside = Path::new(group).strip_prefix(&self.root);
        let Ok(inside) = inside else {
            return PathBuf::new();
        };
        if inside.components().any(|part| part == Component::ParentDir) {
            return PathBuf::new();
        }
        inside.to_path_buf()
    }
}

/// Octal escapes of spaces, tabs, line ends and backslashes.
fn unescape(field: &str) -> String {
    let mut text = field.to_owned();
    for (escape, character) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        text = text.replace(escape, character);
    }
    text
}

/// `path`, which is absolute, below `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn read_quota(version: Version, group: &Path) -> Option<Quota> {
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|&number| number > 0);
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let (time, period) = match version {
        Version::One => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
        Version::Two => {
            let both = read("cpu.max")?;
            let (time, period) = both.trim().split_once(' ')?;
            (time.to_owned(), period.to_owned())
        }
    };
    // No limit is `max` in v2 and -1 in v1: neither is a number.
    Some(Quota {
        time: number(&time)?,
        period: number(&period)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_child;

    /// A root with the files of a process, removed with it.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, cgroup: &str, mountinfo: &str) -> Root {
            let path =
                std::env::temp_dir().join(format!("gmp-cgroup-{name}-{}", std::process::id()));
            let root = Root(path);
            root.file("proc/self/cgroup", cgroup);
            root.file("proc/self/mountinfo", mountinfo);
            root
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&self.0)).expect("a directory");
            fs::write(path, text).expect("a file");
        }

        fn quota(&self) -> Option<(u64, u64)> {
            quota(&self.0).map(|quota| (quota.time, quota.period))
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const V2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "\
        33 32 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        34 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn the_ratio_is_rounded_up_and_two_at_least() {
        let mut checked = 0;
        for (time, procs) in [
            (1, 2),
            (50_000, 2),
            (100_000, 2),
            (200_000, 2),
            (200_001, 3),
            (250_000, 3),
            (800_000, 8),
            (u64::MAX, usize::MAX),
        ] {
            let period = if time == u64::MAX { 1 } else { 100_000 };
            assert_eq!(Quota { time, period }.procs(), procs, "{time}");
            checked += 1;
        }
        assert_eq!(checked, 8);
    }

    #[test]
    fn version_two_and_the_groups_above() {
        let root = Root::new("two", "0::/a/b\n", V2);
        assert_eq!(root.quota(), None, "no file says anything");
        root.file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        assert_eq!(root.quota(), None);
        root.file("sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
        assert_eq!(root.quota(), Some((250_000, 100_000)));
        root.file("sys/fs/cgroup/a/cpu.max", "30000 10000\n");
        assert_eq!(root.quota(), Some((250_000, 100_000)), "3 is more than 2.5");
        root.file("sys/fs/cgroup/a/cpu.max", "20000 10000\n");
        assert_eq!(root.quota(), Some((20_000, 10_000)));
        root.file("sys/fs/cgroup/cpu.max", "1000 1000\n");
        assert_eq!(root.quota(), Some((1000, 1000)), "that of the mount itself");
        root.file("sys/fs/cpu.max", "1 1000\n");
        assert_eq!(root.quota(), Some((1000, 1000)), "nothing above the mount");
    }

    #[test]
    fn version_one_and_a_mix_of_both() {
        let groups = "11:memory:/m\n4:cpu,cpuacct:/docker/0abc\n0::/ignored\n";
        let mounts = format!("{V1}{V2}");
        let root = Root::new("one", groups, &mounts);
        let group = "sys/fs/cgroup/cpu,cpuacct/docker/0abc";
        root.file(&format!("{group}/cpu.cfs_quota_us"), "-1\n");
        root.file(&format!("{group}/cpu.cfs_period_us"), "100000\n");
        root.file("sys/fs/cgroup/ignored/cpu.max", "1 1000\n");
        assert_eq!(root.quota(), None);
        root.file(&format!("{group}/cpu.cfs_quota_us"), "150000\n");
        assert_eq!(root.quota(), Some((150_000, 100_000)));
    }

    #[test]
    fn a_mount_of_a_part_of_the_tree_and_names_with_spaces() {
        let mounts = "30 23 0:26 /pods/x /cg\\040roups rw - cgroup2 none rw\n";
        let root = Root::new("part", "0::/pods/x/c1\n", mounts);
        root.file("cg roups/c1/cpu.max", "400000 100000\n");
        assert_eq!(root.quota(), Some((400_000, 100_000)));
        let elsewhere = Root::new("elsewhere", "0::/../other\n", V2);
        elsewhere.file("sys/fs/cgroup/cpu.max", "500000 100000\n");
        assert_eq!(elsewhere.quota(), Some((500_000, 100_000)));
    }

    /// A group of the kernel's own, in which a child of this test is; `None` where none can be made.
    fn make_real_group() -> Option<PathBuf> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let (version, group) = group_of_cpu(&groups)?;
        let mut mounts = mounts.lines().filter_map(Mount::parse);
        let mount = mounts.find(|mount| mount.is_for(version))?;
        let name = format!("gmp-test-{}", std::process::id());
        let path = Path::new(&mount.point)
            .join(mount.path_of(group))
            .join(name);
        fs::create_dir(&path).ok()?;
        let limited = match version {
            Version::One => fs::write(path.join("cpu.cfs_quota_us"), "123000")
                .and_then(|()| fs::write(path.join("cpu.cfs_period_us"), "50000")),
            Version::Two => fs::write(path.join("cpu.max"), "123000 50000"),
        };
        if limited.is_err() {
            let _ = fs::remove_dir(&path);
            return None;
        }
        Some(path)
    }

    #[test]
    fn a_real_group_is_read_where_one_can_be_made() {
        if let Some(group) = test_child::requested_case() {
            if !group.is_empty() {
                let pid = std::process::id().to_string();
                fs::write(Path::new(&group).join("cgroup.procs"), pid).expect("a member");
                let expected = Quota {
                    time: 123_000,
                    period: 50_000,
                };
                assert_eq!(quota(Path::new("/")), Some(expected));
            }
            return;
        }
        // Elsewhere the child only shows that what is there can be read.
        let group = make_real_group();
        let case = group.as_deref().unwrap_or(Path::new("")).to_string_lossy();
        let output = test_child::run(
            "procs::cgroup::tests::a_real_group_is_read_where_one_can_be_made",
            &case,
        );
        if let Some(group) = group {
            // The kernel may count a process that has ended for a moment more.
            let removed = (0..500).any(|_| {
                let removed = fs::remove_dir(&group).is_ok();
                if !removed {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                removed
            });
            assert!(removed, "{} is not empty", group.display());
        }
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn what_cannot_be_understood_is_no_limit() {
        let mut checked = 0;
        for text in [
            "",
            "max",
            "100000",
            "x 100000",
            "100000 0",
            "0 100000",
            "-5 100000",
            "1 2 3",
        ] {
            let root = Root::new("bad", "0::/\n", V2);
            root.file("sys/fs/cgroup/cpu.max", text);
            assert_eq!(root.quota(), None, "{text:?}");
            checked += 1;
        }
        for (cgroup, mountinfo) in [
            ("", V2),
            ("0::/\n", ""),
            ("nonsense", "nonsense - x"),
            ("0:/", V1),
        ] {
            let root = Root::new("worse", cgroup, mountinfo);
            root.file("sys/fs/cgroup/cpu.max", "1 1\n");
            assert_eq!(root.quota(), None, "{cgroup:?} {mountinfo:?}");
            checked += 1;
        }
        assert_eq!(checked, 12);
        assert_eq!(quota(Path::new("/nowhere at all")), None);
    }
}
