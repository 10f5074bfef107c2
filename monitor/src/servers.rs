//! The resolvers that are asked for the names of no container: those of a plan, in their order.

use crate::addresses::{SocketAddress, is_v6, mapped, socket_address};
use crate::ops::{self, Plan};

const MAX_SERVERS: usize = 4;
const PORT: u16 = 53;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// IPv4 addresses are mapped.
    ip: [u8; 16],
    scope: u32,
    /// The resolver is asked from the host's network, not from the container's.
    pub outside: bool,
}

impl Server {
    pub fn is_v6(&self) -> bool {
        is_v6(&self.ip)
    }

    pub fn address(&self) -> SocketAddress {
        socket_address(&self.ip, PORT, self.scope)
    }
}

pub struct Servers {
    servers: [Server; MAX_SERVERS],
    count: usize,
}

impl Servers {
    #[cfg(test)]
    const NONE: Servers =
        Servers { servers: [Server { ip: [0; 16], scope: 0, outside: false }; MAX_SERVERS], count: 0 };

    /// Reads the resolvers of a plan. The newer operation counts alone where a plan has both.
    pub fn read(&mut self, plan: Plan) {
        self.count = 0;
        if let Some(op) = plan.find::<ops::Servers>() {
            for ops::Server { ip, outside, scope } in op.servers.iter() {
                self.add(Server { ip: *ip, scope, outside });
            }
        } else if let Some(resolver) = plan.find::<ops::Resolver>() {
            for ops::OldServer { ip, outside } in resolver.servers.iter() {
                self.add(Server { ip: mapped(*ip), scope: 0, outside });
            }
        }
    }

    /// Adds a server; one beyond the first few is never asked.
    fn add(&mut self, server: Server) {
        if let Some(place) = self.servers.get_mut(self.count) {
            *place = server;
            self.count += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn get(&self, number: usize) -> Option<&Server> {
        self.servers[..self.count].get(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Items, PlanWriter};
    use crate::wire::{HEADER_LEN, Header, PLAN_MAGIC, VERSION};

    fn read(write: impl FnOnce(&mut PlanWriter)) -> Servers {
        let mut plan = PlanWriter::new();
        write(&mut plan);
        let zero = Header::of(&[0; HEADER_LEN]).expect("as long as a head is");
        let (bytes, _) = plan.finish(Header { magic: PLAN_MAGIC, version: VERSION, ..zero });
        let mut servers = Servers::NONE;
        servers.read(Plan::check(&bytes).expect("a plan"));
        servers
    }

    fn addresses(servers: &Servers) -> Vec<(SocketAddress, bool)> {
        (0..).map_while(|number| servers.get(number)).map(|server| (server.address(), server.outside)).collect()
    }

    #[test]
    fn the_servers_of_the_newer_operation_stand_in_place_of_the_older_ones() {
        let old = Items::of([ops::OldServer { ip: &[10, 0, 0, 1], outside: true }]);
        let new = Items::of([ops::Server { ip: &[7; 16], outside: false, scope: 3 }]);
        let names = Items::texts([""; 0]);
        let resolver = || ops::Resolver { servers: old.list(), names: names.list() };
        let only_old = read(|plan| plan.push(resolver(), ""));
        assert_eq!(addresses(&only_old), [(socket_address(&mapped([10, 0, 0, 1]), 53, 0), true)]);
        let both = read(|plan| {
            plan.push(resolver(), "");
            plan.push(ops::Servers { servers: new.list() }, "");
        });
        assert_eq!(addresses(&both), [(socket_address(&[7; 16], 53, 3), false)]);
        assert!(both.get(0).is_some_and(Server::is_v6) && !only_old.get(0).is_some_and(Server::is_v6));
    }

    #[test]
    fn the_first_few_servers_of_a_plan_count() {
        assert!(read(|_| {}).is_empty());
        let ips: Vec<[u8; 16]> = (0..6).map(|number| [number; 16]).collect();
        let all = Items::of(ips.iter().map(|ip| ops::Server { ip, outside: true, scope: 0 }));
        let servers = read(|plan| plan.push(ops::Servers { servers: all.list() }, ""));
        assert_eq!(addresses(&servers).len(), MAX_SERVERS);
        assert!(!servers.is_empty());
        assert_eq!(servers.get(3).map(Server::address), Some(socket_address(&[3; 16], 53, 0)));
    }
}
