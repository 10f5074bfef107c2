//! The HTTP router and its doors.
