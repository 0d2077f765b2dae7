//! Messages that are still arriving: how long they may take, and how much of them a node holds.
//!
//! A caller who begins messages and never ends them makes a server keep what has come so far. Two bounds say
//! how much that can be, over gRPC and HTTP together and whatever the number of connections:
//!
//! * a message has [`ARRIVES_WITHIN`], also when its caller's deadline is later;
//! * all unfinished messages of a node together hold at most [`INTAKE_BYTES_MAX`]. The message that goes beyond
//!   is refused, and its caller may try again; the others go on.
//!
//! A message that is complete when it is first looked at, as nearly all are, costs neither a timer nor an
//! atomic, and it is taken however full the intake is: slow callers cannot keep quick ones out.
//!
//! Rejected: a bound per connection (connections are many), and waiting for room instead of refusing (those who
//! never finish would be waited for).

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::{Code, Status};

use crate::metrics::counters::Tally;
use crate::node::Node;

/// How long a message may take to arrive, counted from the first time that it has to be waited for.
pub const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// What all unfinished messages of a node may hold together, in bytes.
pub const INTAKE_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// What a piece of a message costs besides its bytes, so that tiny pieces are not free.
const PIECE_OVERHEAD: usize = 64;

/// Bytes of unfinished messages, over all connections of a node.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    held: AtomicUsize,
}

impl Intake {
    fn take(&self, bytes: usize) -> bool {
        let fits = self.held.fetch_add(bytes, Relaxed).saturating_add(bytes) <= INTAKE_BYTES_MAX;
        if !fits {
            self.held.fetch_sub(bytes, Relaxed);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Relaxed);
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

/// Why a message did not arrive. `Display` gives the text for the caller.
#[derive(Debug)]
#[non_exhaustive]
pub enum ArrivalError {
    /// It took longer than [`ARRIVES_WITHIN`].
    TooSlow,
    /// The node's unfinished messages hold [`INTAKE_BYTES_MAX`] already.
    NoRoom,
    /// The connection failed.
    Broken(BoxError),
}

impl ArrivalError {
    /// The gRPC code. What broke a connection reaches nobody; it counts as the caller's fault.
    pub const fn code(&self) -> Code {
        match self {
            Self::TooSlow => Code::DeadlineExceeded,
            Self::NoRoom => Code::ResourceExhausted,
            Self::Broken(_) => Code::InvalidArgument,
        }
    }
}

impl fmt::Display for ArrivalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSlow => {
                write!(f, "request body did not arrive within {} s; send it faster", ARRIVES_WITHIN.as_secs())
            }
            Self::NoRoom => write!(
                f,
                "this node already holds {INTAKE_BYTES_MAX} bytes of unfinished requests; try again later"
            ),
            Self::Broken(error) => write!(f, "request body cannot be read: {error}"),
        }
    }
}

impl Error for ArrivalError {}

impl From<ArrivalError> for Status {
    fn from(error: ArrivalError) -> Self {
        match error {
            // tonic knows what the protocol's errors mean.
            ArrivalError::Broken(error) => Self::from_error(error),
            error => Self::new(error.code(), error.to_string()),
        }
    }
}

/// A body under the bounds of [the module](self). What it holds of the node's intake it gives back when it is
/// dropped: the message is complete then, and answered without another wait, or thrown away.
#[derive(Debug)]
pub struct Arriving<B> {
    body: B,
    node: Node,
    /// What this message holds of the intake.
    held: usize,
    /// Set when the message has first to be waited for.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<B> Arriving<B> {
    pub(crate) fn new(body: B, node: Node) -> Self {
        Self { body, node, held: 0, patience: None }
    }
}

impl<B> Body for Arriving<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = ArrivalError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, ArrivalError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
            let patience = this.patience.get_or_insert_with(|| Box::pin(sleep(ARRIVES_WITHIN)));
            ready!(patience.as_mut().poll(context));
            return Poll::Ready(Some(Err(ArrivalError::TooSlow)));
        };
        let Some(frame) = frame else { return Poll::Ready(None) };
        let frame = frame.map_err(|error| ArrivalError::Broken(error.into()))?;
        // The first piece of a message that it completes will be decoded at once.
        if let Some(data) = frame.data_ref()
            && (this.held > 0 || !this.body.is_end_stream())
        {
            let cost = data.remaining().saturating_add(PIECE_OVERHEAD);
            if !this.node.inner().intake.take(cost) {
                let tally = Tally { intake_refused: 1, ..Tally::default() };
                this.node.metrics().slot().add(&tally);
                return Poll::Ready(Some(Err(ArrivalError::NoRoom)));
            }
            this.held += cost;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Arriving<B> {
    fn drop(&mut self) {
        if self.held > 0 {
            self.node.inner().intake.give_back(self.held);
        }
    }
}
