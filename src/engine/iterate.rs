//! Streams as iterators, and descriptors as [`AsFd`].

use super::{ContainerWait, ExecWait};
use crate::container::StatsStream;
use crate::error::Result;
use crate::event::EventStream;
use crate::log::{LogLine, LogStream};
use crate::model::{ContainerStats, Event};
use std::os::fd::{AsFd, BorrowedFd};

/// The items of a stream, one after another: it waits for each without a bound, and ends with the stream.
///
/// `for line in log` takes the stream; `for line in &mut log` leaves it, for more or for its counts. The streams' own `next` takes a
/// timeout and an [`crate::Op`].
///
/// ```no_run
/// use coracle::model::LogQuery;
///
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let mut log = engine.container_logs("clock", &LogQuery::default(), None)?;
/// for line in &mut log {
///     print!("{}", String::from_utf8_lossy(&line?.data));
/// }
/// println!("{} lines were lost", log.lost());
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct Items<S>(S);

/// The iterators of a stream, owned and lent.
macro_rules! items {
    ($stream:ty, $item:ty, $next:expr) => {
        impl Iterator for Items<$stream> {
            type Item = Result<$item>;

            fn next(&mut self) -> Option<Result<$item>> {
                $next(&mut self.0).transpose()
            }
        }

        impl Iterator for Items<&mut $stream> {
            type Item = Result<$item>;

            fn next(&mut self) -> Option<Result<$item>> {
                $next(self.0).transpose()
            }
        }

        impl IntoIterator for $stream {
            type Item = Result<$item>;
            type IntoIter = Items<$stream>;

            fn into_iter(self) -> Items<$stream> {
                Items(self)
            }
        }

        impl<'a> IntoIterator for &'a mut $stream {
            type Item = Result<$item>;
            type IntoIter = Items<&'a mut $stream>;

            fn into_iter(self) -> Items<&'a mut $stream> {
                Items(self)
            }
        }
    };
}

items!(LogStream, LogLine, |log: &mut LogStream| log.next(None, None));
items!(EventStream, (u64, Event), |events: &mut EventStream| events.next(None, None));
items!(StatsStream, ContainerStats, |samples: &mut StatsStream| samples.next(None));

/// The descriptor that each method `fd` describes.
macro_rules! as_fd {
    ($($name:ty),*) => {
        $(impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.fd()
            }
        })*
    };
}

as_fd!(EventStream, StatsStream, ContainerWait, ExecWait);
