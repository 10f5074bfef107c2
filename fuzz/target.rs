//! Every target is this program under another name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let name = env!("CARGO_BIN_NAME");
    coracle::fuzz::run(name, data);
    coracle_http::fuzz::run(name, data);
    coracle_monitor::fuzz::run(name, data);
});
