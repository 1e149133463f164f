// SPDX-License-Identifier: GPL-2.0
//! Tests of requests in the registry: shares of users, keys, and the owners of TSGs.

use super::fixture::{
    self,
    admin,
    OWNER, //
};
use crate::{
    error::Failure,
    glue::identity::Uid,
    policy::{
        level::Level,
        permit::Change, //
    },
    registry::{
        class::Named,
        gpu,
        tsg,
        Registry, //
    },
    request::{
        group::Group,
        stats::Shared, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Somebody else.
const OTHER: Uid = Uid(1001);

fn lab() -> Result<(KBox<Registry>, gpu::Id, tsg::Id)> {
    let (mut r, gpu) = fixture::registry_with_turns()?;
    let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
    Ok((r, gpu, id))
}

fn group(r: &mut Registry, id: tsg::Id) -> Result<Arc<Group>> {
    Ok(r.group(id, OWNER, false, false, Some(Shared::new()?))?)
}

#[kernel::macros::kunit_tests(zernel_registry_requests)]
mod cases {
    use crate::registry::tests::requests::*;

    #[test]
    fn a_tsg_has_one_group_for_whom_it_belongs_to() -> Result {
        let (mut r, _, id) = lab()?;
        assert!(r.is_first(id, OWNER, false) && r.is_first(id, OTHER, true));
        // Nobody learns of another user's TSG by the time of a request.
        assert!(!r.is_first(id, OTHER, false) && !r.is_first(tsg::Id(1), OWNER, true));
        let own = group(&mut r, id)?;
        assert!(!r.is_first(id, OWNER, false));
        assert!(Arc::ptr_eq(&own, &group(&mut r, id)?));
        // A stranger gets ENOENT; a caller that sees all, EPERM.
        let error = |r: &mut Registry, sees, may| r.group(id, OTHER, sees, may, None).err();
        assert_eq!(error(&mut r, false, false), Some(Failure::NoTsg));
        assert_eq!(error(&mut r, true, false), Some(Failure::NotPermitted));
        assert_eq!(error(&mut r, false, true), None);
        assert_eq!(
            r.group(tsg::Id(1), OWNER, true, true, None).err(),
            Some(Failure::NoTsg)
        );
        Ok(())
    }

    #[test]
    fn a_group_knows_the_level_in_force() -> Result {
        let (mut r, _, id) = lab()?;
        let own = group(&mut r, id)?;
        assert_eq!(own.check(true), Ok(()));
        // Without a holder it takes a class that only privilege gives.
        assert_eq!(own.check(false), Err(EPERM));
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        assert_eq!(own.check(false), Err(EPERM));
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        assert_eq!(own.check(false), Ok(()));
        r.change_class(admin(), Named::Tsg(id), Change::CLEAR)?;
        assert_eq!(own.check(false), Err(EPERM));
        Ok(())
    }

    #[test]
    fn no_request_begins_on_a_tsg_that_is_gone() -> Result {
        let (mut r, _, id) = lab()?;
        let own = group(&mut r, id)?;
        r.remove_tsg(id);
        assert_eq!(own.check(true), Err(ENOENT));
        assert_eq!(
            r.group(id, OWNER, false, false, Some(Shared::new()?)).err(),
            Some(Failure::NoTsg)
        );
        Ok(())
    }

    #[test]
    fn none_begins_while_the_gpu_is_suspended() -> Result {
        let (mut r, gpu, id) = lab()?;
        let own = group(&mut r, id)?;
        r.suspend_gpu(gpu);
        assert_eq!(own.check(true), Err(EAGAIN));
        r.doubt_gpu(gpu);
        assert_eq!(own.check(true), Ok(()));
        Ok(())
    }

    #[test]
    fn none_begins_while_the_system_sleeps() -> Result {
        let (mut r, gpu, id) = lab()?;
        let own = group(&mut r, id)?;
        r.system_sleeps(true);
        assert_eq!(own.check(true), Err(EAGAIN));
        // A driver that answers once more before it sleeps, too, changes nothing about that.
        r.suspend_gpu(gpu);
        r.doubt_gpu(gpu);
        assert_eq!(own.check(true), Err(EAGAIN));
        r.system_sleeps(false);
        assert_eq!(own.check(true), Ok(()));
        Ok(())
    }
}
