// SPDX-License-Identifier: GPL-2.0
//! Passes on reports of the model: to waiters, files, eventfds and the trace.

use super::{
    context::Context,
    records::Records,
    uapi::*, //
};
use crate::{
    host::Listener,
    model::event::{
        Activity,
        Completion,
        Record,
        Sink,
        Start, //
    }, //
};
use kernel::sync::Arc;

/// The trace of a GPU.
pub(crate) struct Trace {
    /// Number of the file that reads it.
    pub(crate) file: u64,
    /// Records.
    pub(crate) records: Records<zernel_sim_trace_record>,
}

/// Takes the reports of one call of the model. Lives under the lock of the GPU.
pub(crate) struct Reporter<'a> {
    /// The trace, if somebody wants it.
    pub(crate) trace: Option<&'a mut Trace>,
    /// Hears of the TSGs that get an engine.
    pub(crate) listener: &'a Listener,
}

impl Sink<Arc<Context>> for Reporter<'_> {
    fn completed(&mut self, context: &Arc<Context>, completion: &Completion) {
        context.user.items.release(1);
        if completion.notify {
            context.inbox.push(context.id, completion);
            context.signal(completion.channel);
        }
        context.wake(completion.channel, completion.seq);
    }

    fn recorded(&mut self, context: Option<&Arc<Context>>, record: &Record) {
        self.listener.recorded(record);
        let Some(trace) = self.trace.as_mut() else {
            return;
        };
        trace.records.push(zernel_sim_trace_record {
            start_ns: record.start.0,
            end_ns: record.end.0,
            tsg: record.tsg.0,
            engine: record.engine,
            kind: match record.activity {
                Activity::Run => ZERNEL_SIM_TRACE_RUN,
                Activity::Save => ZERNEL_SIM_TRACE_SAVE,
                Activity::Restore => ZERNEL_SIM_TRACE_RESTORE,
                Activity::Idle => ZERNEL_SIM_TRACE_IDLE,
            },
            context: context.map_or(0, |context| context.id),
            pid: context.map_or(0, |context| context.process.global()),
        });
    }

    fn started(&mut self, start: &Start) {
        self.listener.started(start);
    }
}
