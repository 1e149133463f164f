// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lowers the calling process, and prints the events of its TSGs: the example of
//! Documentation/uapi.rst.

use libzernel::event::{Kind, Wanted};
use libzernel::{Level, Target, Zernel};

fn main() -> libzernel::Result<()> {
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    zernel.set_class(&me, Level::BE)?;
    // First the events, then the list: changes in between are among the events.
    let wanted = Wanted::only(&[Kind::TsgAdded, Kind::TsgClass]).of(&me);
    let mut events = zernel.events_of(&wanted)?;
    for tsg in zernel.tsgs_of(&me) {
        let tsg = tsg?;
        println!("TSG {} on GPU {}: {} us", tsg.id, tsg.gpu, tsg.timeslice_us);
    }
    for event in events.iter() {
        let event = event?;
        println!("{} of TSG {}: {:?}", event.kind, event.tsg, event.level);
    }
    Ok(())
}
