//! The process as the operating system sees it: `gubernator_process_*`, on Linux only.

use super::page::Page;

/// Adds what can be read; on another system, nothing.
#[cfg(not(target_os = "linux"))]
pub(super) fn collect(_page: &mut Page) {}

/// Adds what can be read; what cannot is left out.
#[cfg(target_os = "linux")]
pub(super) fn collect(page: &mut Page) {
    use procfs::process::{LimitValue, Process};

    let Ok(process) = Process::myself() else { return };
    let limit = |value: LimitValue| match value {
        LimitValue::Value(value) => value as f64,
        // What the original shows for "unlimited": the largest unsigned number.
        LimitValue::Unlimited => u64::MAX as f64,
    };
    if let Ok(stat) = process.stat() {
        let ticks = procfs::ticks_per_second() as f64;
        let cpu = (stat.utime + stat.stime) as f64 / ticks;
        page.counter_f64("gubernator_process_cpu_seconds_total", "CPU time used, user and system.", cpu);
        let resident = stat.rss as f64 * procfs::page_size() as f64;
        page.gauge("gubernator_process_resident_memory_bytes", "Memory in RAM.", resident);
        page.gauge("gubernator_process_virtual_memory_bytes", "Address space in use.", stat.vsize as f64);
        if let Ok(boot) = procfs::boot_time_secs() {
            let start = boot as f64 + stat.starttime as f64 / ticks;
            page.gauge("gubernator_process_start_time_seconds", "Start, Unix seconds.", start);
        }
    }
    if let Ok(open) = process.fd_count() {
        page.gauge("gubernator_process_open_fds", "Open file descriptors.", open as f64);
    }
    if let Ok(limits) = process.limits() {
        let fds = limit(limits.max_open_files.soft_limit);
        page.gauge("gubernator_process_max_fds", "Most file descriptors the process may open.", fds);
        let space = limit(limits.max_address_space.soft_limit);
        page.gauge("gubernator_process_virtual_memory_max_bytes", "Most address space it may use.", space);
    }
}
