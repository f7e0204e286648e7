//! Transactions and several reads in one.

use zoolet_jute::{
    CreateMode, MultiOp, MultiReadOp, Parts, PathVersionRequest, PathWatchRequest, Request,
    SetDataRequest,
};

use super::Operations;
use super::parts::{create_request, ttl_request};

impl Operations {
    /// A transaction of a few parts; a part of one in three of them cannot succeed.
    pub(super) fn multi(&mut self) -> Request {
        let mut parts: Vec<MultiOp> =
            (0..self.chance.between(1..=5)).map(|_| self.part()).collect();
        if self.chance.one_in(3) {
            let doomed = self.doomed_part();
            parts.insert(self.chance.place(parts.len() + 1), doomed);
        }
        if self.chance.one_in(100) {
            parts.clear();
        }
        Request::Multi(Parts(parts))
    }

    fn part(&mut self) -> MultiOp {
        match self.chance.between(0..=9) {
            0 => MultiOp::Create(self.part_create(CreateMode::Persistent)),
            1 => MultiOp::Create2(self.part_create(CreateMode::Ephemeral)),
            2 => MultiOp::Create(self.part_create(CreateMode::EphemeralSequential)),
            3 => MultiOp::CreateContainer(self.part_create(CreateMode::Container)),
            4 => MultiOp::CreateTtl(ttl_request(self.path(), self.data.next(), &mut self.chance)),
            5 => MultiOp::Delete(PathVersionRequest { path: self.path(), version: -1 }),
            6 => MultiOp::Check(self.path_version()),
            7 => {
                let PathVersionRequest { path, version } = self.path_version();
                MultiOp::SetData(SetDataRequest { path, data: self.data.next(), version })
            }
            _ => {
                let path = self.path();
                MultiOp::SetData(SetDataRequest { path, data: self.data.next(), version: -1 })
            }
        }
    }

    fn part_create(&mut self, mode: CreateMode) -> zoolet_jute::CreateRequest {
        create_request(self.path(), self.data.next(), mode, &mut self.chance)
    }

    fn doomed_part(&mut self) -> MultiOp {
        match self.chance.between(0..=2) {
            0 => MultiOp::Check(PathVersionRequest { path: self.path(), version: i32::MAX }),
            1 => {
                let path = format!("{}/absent/child", self.path());
                MultiOp::Delete(PathVersionRequest { path, version: -1 })
            }
            _ => {
                let path = self.path();
                MultiOp::SetData(SetDataRequest { path, data: None, version: i32::MAX })
            }
        }
    }

    /// A few reads, some of them of znodes that are not there.
    pub(super) fn multi_read(&mut self) -> Request {
        let mut reads = Vec::new();
        for _ in 0..self.chance.between(1..=5) {
            let body = PathWatchRequest { path: self.path(), watch: self.chance.one_in(4) };
            reads.push(if self.chance.one_in(2) {
                MultiReadOp::GetData(body)
            } else {
                MultiReadOp::GetChildren(body)
            });
        }
        Request::MultiRead(Parts(reads))
    }
}
